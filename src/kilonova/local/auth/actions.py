"""From a request to the action that it asks for, by its method, path and query alone.

The path is split as `routes` splits it, so that what is judged is what is done. Whether there is
such a resource does not matter: who may not read it is not told either.
"""

from urllib.parse import unquote

from kilonova.kube.transport import Request
from kilonova.local.auth.authorizer import Action
from kilonova.local.errors import ApiError
from kilonova.local.names import path_segment
from kilonova.local.selectors import parse_field_selector

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_VERBS_IN_PATHS = ("proxy", "watch")
_OF_A_NAMESPACE = ("status", "finalize")


def action_of(request: Request) -> Action:
    """What a request asks for."""
    parts = [unquote(part) for part in request.path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Action(request.method.lower(), path=unquote(request.path))
    verb = _VERBS.get(request.method, "")
    if rest[0] in _VERBS_IN_PATHS and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_A_NAMESPACE:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 and verb != "proxy" else ""
    if not name:
        verb, name = _of_a_collection(verb, request)
    return Action(verb, group, version, rest[0], subresource, namespace, name)


def _of_a_collection(verb: str, request: Request) -> tuple[str, str]:
    """The verb on all objects, and the name of the one that a field selector leaves."""
    if verb == "delete":
        return "deletecollection", ""
    if verb != "get":
        return verb, ""
    verb = "watch" if wants_watch(request) else "list"
    try:
        name = parse_field_selector(request.param("fieldSelector") or "").exact("metadata.name")
    except ApiError:
        return verb, ""  # the list itself will say what is wrong with the selector
    return verb, name if name and path_segment(name) is None else ""


def wants_watch(request: Request) -> bool:
    """Whether a list is to be a watch: whatever is not false is true, as for Kubernetes."""
    watched = request.param("watch")
    return watched is not None and watched.lower() not in ("false", "0")
