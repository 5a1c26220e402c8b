"""Shell completion of names of inference services."""

import typer

from kilonova.component.command.name_completion import ResourceTuple, complete_names

_SERVICES: ResourceTuple = (
    "serving.kilonova.dev",
    "v1alpha1",
    "inferenceservices",
    "InferenceService",
    True,
)


def complete_services(context: typer.Context, incomplete: str) -> list[str]:
    """Names of services of the namespace with this prefix."""
    return complete_names(incomplete, context.params, (_SERVICES,))
