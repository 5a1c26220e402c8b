"""What a request asks for, by its method, path and query alone (k8s.io/apiserver's RequestInfo).

`parse_request_info` is called once for each request, before anything else. Authentication of
anonymous requests, authorization, the choice of the handler and the handlers themselves all use
its result, so that what is authorized is what is executed. It knows no kinds: whether the resource
is served is decided after authorization (`resource_target`), so a user who may not read it does
not learn that either.

It accepts every path. Segments are split first and unquoted then: an encoded slash belongs to a
name. Trailing slashes are ignored; an empty segment elsewhere is a segment.
"""

from collections.abc import Sequence
from urllib.parse import unquote

import msgspec

from kilonova.kube.client.transport import Query, Request
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.names import path_segment_error
from kilonova.local.apimachinery.selectors import parse_field_selector

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_VERB_PREFIXES = ("proxy", "watch")
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class RequestInfo(msgspec.Struct, frozen=True, gc=False):
    """A verb on a resource, or a method on a non-resource path. Empty where the path has none."""

    verb: str
    """`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; empty for
    other methods on a resource; the method in lower case on a non-resource path."""
    path: str
    """The whole path, unquoted."""
    parts: Sequence[str]
    """The unquoted segments, of a resource request from the resource on."""
    is_resource_request: bool = False
    api_group: str = ""
    api_version: str = ""
    namespace: str = ""
    """The namespace that the object is in; empty for a Namespace itself."""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    subpath: str = ""
    """What follows `/proxy`, as sent, with its leading slash."""
    selected_name: str = ""
    """The only object name that the field selector of a list or watch allows."""
    has_verb_prefix: bool = False
    """The path begins with the verb, as `/api/v1/watch/pods`: such paths are no longer served."""

    @property
    def is_proxy(self) -> bool:
        """Whether the request is for a pod, service or node, which interprets body and query."""
        return self.subresource == "proxy" and not self.api_group


def parse_request_info(request: Request) -> RequestInfo:
    """Parse method, path and query of a request; never raises."""
    path = request.path
    parts = path.removeprefix("/").rstrip("/").split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
        path = unquote(path)
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(request.method.lower(), path, parts)
    verb = _VERBS.get(request.method, "")
    has_verb_prefix = rest[0] in _VERB_PREFIXES and len(rest) > 1
    if has_verb_prefix:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    count = len(rest)
    name = rest[1] if count > 1 else ""
    subresource = rest[2] if count > 2 and verb != "proxy" else ""
    selected_name = ""
    if not name:
        if verb == "get":
            verb, selected_name = _parse_collection_query(request.query)
        elif verb == "delete":
            verb = "deletecollection"
    return RequestInfo(
        verb,
        path,
        rest,
        True,
        group,
        version,
        namespace,
        rest[0],
        name,
        subresource,
        _subpath(request.path, len(parts) - count + 3) if subresource == "proxy" else "",
        selected_name,
        has_verb_prefix,
    )


def _parse_collection_query(query: Query) -> tuple[str, str]:
    """The verb on a collection, and the only name that the field selector allows. Of a repeated
    parameter the first counts."""
    watched: str | None = None
    selector: str | None = None
    for parameter, value in query:
        if parameter == "watch" and watched is None:
            watched = value
        elif parameter == "fieldSelector" and selector is None:
            selector = value
    # Any value but false is true, as in Kubernetes.
    is_watch = watched is not None and watched.lower() not in ("false", "0")
    return "watch" if is_watch else "list", _selected_name(selector or "")


def _selected_name(selector: str) -> str:
    if "metadata.name" not in selector:
        return ""
    try:
        name = parse_field_selector(selector).exact_value("metadata.name")
    except ApiError:
        return ""  # the list reports the error in the selector
    return name if name and path_segment_error(name) is None else ""


def _subpath(path: str, depth: int) -> str:
    """What follows the first segments of a path, as sent."""
    return "".join(f"/{segment}" for segment in path.removeprefix("/").split("/")[depth:])
