"""Rejects writes in missing or terminating namespaces, and the deletion of system namespaces."""

from collections.abc import Callable

from kilonova.local.apimachinery.errors import ApiError, forbidden, not_found
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.storage import Entry

_PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
_TERMINATING_PHASE = b'"phase":"Terminating"'


class NamespaceLifecycle:
    """`namespace` looks up a namespace, as the next write will see it."""

    def __init__(self, namespace: Callable[[str], Entry | None]) -> None:
        self._namespace = namespace

    async def mutate(self, attributes: Attributes) -> None:
        target = attributes.target
        if attributes.operation == "DELETE" and target.kind.kind == "Namespace":
            if (
                target.kind.group == ""
                and target.name in _PROTECTED_NAMESPACES
                and not target.subresource
            ):
                raise forbidden("", "namespaces", target.name, "this namespace may not be deleted")
            return
        if attributes.operation != "CREATE" or not target.namespace:
            return
        if target.kind.group == "authorization.k8s.io":
            return
        found = self._namespace(target.namespace)
        if found is None:
            raise not_found("", "namespaces", target.namespace)
        if _TERMINATING_PHASE in found.body and _is_terminating(found):
            raise _terminating_error(attributes)


def _is_terminating(namespace: Entry) -> bool:
    return namespace.decode().get("status", {}).get("phase") == "Terminating"


def _terminating_error(attributes: Attributes) -> ApiError:
    target = attributes.target
    name = (attributes.obj or {}).get("metadata", {}).get("name", "") or target.name
    error = forbidden(
        target.kind.group,
        target.kind.plural,
        name,
        f"unable to create new content in namespace {target.namespace} "
        "because it is being terminated",
    )
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {target.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    error.details = {**(error.details or {}), "causes": [cause]}
    return error
