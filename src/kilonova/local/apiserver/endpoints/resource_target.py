"""The served kind, object and subresource that a request is for."""

import msgspec

from kilonova.local.apimachinery.errors import PageNotFound, not_found, path_not_found
from kilonova.local.apiserver.endpoints.request_info import RequestInfo
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.served_kinds import ServedKinds


class ResourceTarget(msgspec.Struct, frozen=True):
    """A resource, an object or a subresource. Empty strings where the path has none."""

    kind: Kind
    namespace: str
    name: str
    subresource: str
    subpath: str = ""
    """What follows `/proxy` in the path, as sent."""


def resolve_target(info: RequestInfo, served_kinds: ServedKinds) -> ResourceTarget:
    """The target of a resource request; 404 if nothing is served there."""
    group, version, namespace = info.api_group, info.api_version, info.namespace
    kind = served_kinds.find(group, version, info.resource)
    # Proxy paths have any depth.
    is_too_deep = len(info.parts) > 3 and info.subresource != "proxy"
    if kind is None or is_too_deep or info.has_verb_prefix or (namespace and not kind.namespaced):
        raise path_not_found() if served_kinds.is_builtin_version(group, version) else PageNotFound
    name, subresource = info.name, info.subresource
    if subresource and subresource not in kind.subresources:
        raise not_found(kind.group, kind.plural, name) if kind.is_custom else path_not_found()
    if kind.namespaced and not namespace and (name or "list" not in kind.verbs):
        raise path_not_found()
    if name and not subresource and "get" not in kind.verbs:
        raise path_not_found()  # a review, say: there are no objects to name
    return ResourceTarget(kind, namespace, name, subresource, info.subpath)
