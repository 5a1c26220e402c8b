"""Actions that apply to many kinds, for the contributions of components."""

from kilonova.component.console.actions import ActionRequest


async def scale(request: ActionRequest) -> str:
    """Set the replicas of an object with a scale subresource to the entered value."""
    await request.client.set_scale(request.resource, request.name, request.namespace, request.value)
    return f"{request.target} scaled to {request.value} replicas"


async def delete(request: ActionRequest) -> str:
    """Delete an object, and then its dependents."""
    await request.client.delete(
        request.resource, request.name, request.namespace, propagation_policy="Background"
    )
    return f"{request.target} is being deleted"
