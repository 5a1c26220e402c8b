"""The operations of a document: enough that a client knows what a request may carry."""

from kilonova.api.json import JsonObject
from kilonova.local.kinds.base import Kind
from kilonova.local.openapi.components import (
    DELETE_OPTIONS,
    PATCH,
    REFERENCE,
    STATUS,
    definition_name,
)
from kilonova.local.schema.builtin import definition_of


def root_path(kind: Kind) -> str:
    """Where the group-version of a kind is served: `/api/v1`, `/apis/apps/v1`."""
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def operations(kind: Kind) -> JsonObject:
    """The paths of a kind, each with the operations that its verbs allow."""
    own = definition_name(kind)
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{root_path(kind)}{scope}/{kind.plural}"
    everywhere = f"{root_path(kind)}/{kind.plural}"
    paths: JsonObject = {}
    if kind.namespaced and "list" in kind.verbs:
        listed = definition_name(kind, listed=True)
        paths[everywhere] = {"get": _read("list", gvk, listed, suffix="ForAllNamespaces")}
    paths[collection] = _collection(kind, gvk, own)
    paths[f"{collection}/{{name}}"] = _item(kind.verbs, gvk, own, kind, "")
    for each in kind.subresources.values():
        its = {"group": each.group, "version": each.version, "kind": each.kind}
        name = own if its == gvk else definition_of(each.group, each.version, each.kind) or ""
        path = f"{collection}/{{name}}/{each.name}"
        paths[path] = _item(each.verbs, its, name, kind, each.name)
    for path, item in paths.items():
        item["parameters"] = _path_parameters(path)
    return {path: item for path, item in paths.items() if len(item) > 1}


def _collection(kind: Kind, gvk: JsonObject, definition: str) -> JsonObject:
    item: JsonObject = {}
    listed = definition_name(kind, listed=True)
    scoped = "Namespaced" if kind.namespaced else ""
    if "list" in kind.verbs:
        item["get"] = _read("list", gvk, listed, scoped)
    if "create" in kind.verbs:
        item["post"] = _write("post", "create", gvk, definition, scoped)
    if "deletecollection" in kind.verbs:
        item["delete"] = _delete("deletecollection", gvk, STATUS, scoped)
    return item


def _item(
    verbs: tuple[str, ...], gvk: JsonObject, definition: str, kind: Kind, subresource: str
) -> JsonObject:
    scoped = "Namespaced" if kind.namespaced else ""
    suffix = subresource[:1].upper() + subresource[1:]
    item: JsonObject = {}
    if "get" in verbs:
        item["get"] = _read("get", gvk, definition, scoped, suffix)
    if "create" in verbs and subresource:
        item["post"] = _write("post", "create", gvk, definition, scoped, suffix)
    if "update" in verbs:
        item["put"] = _write("put", "replace", gvk, definition, scoped, suffix)
    if "patch" in verbs:
        item["patch"] = _patch(gvk, definition, scoped, suffix, strategic=not kind.custom)
    if "delete" in verbs:
        item["delete"] = _delete("delete", gvk, STATUS, scoped, suffix)
    return item


def _read(
    action: str, gvk: JsonObject, definition: str, scoped: str = "", suffix: str = ""
) -> JsonObject:
    word = "read" if action == "get" else action
    names = _LIST_PARAMETERS if action == "list" else ()
    return _operation(action, word, gvk, definition, scoped, suffix, names)


def _write(
    action: str, word: str, gvk: JsonObject, definition: str, scoped: str, suffix: str = ""
) -> JsonObject:
    names = ("dryRun", "fieldManager", "fieldValidation")
    operation = _operation(action, word, gvk, definition, scoped, suffix, names)
    if definition:  # else a connection, such as exec
        operation["requestBody"] = _body(definition, "application/json", "application/yaml")
    return operation


def _patch(
    gvk: JsonObject, definition: str, scoped: str, suffix: str, *, strategic: bool
) -> JsonObject:
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    operation = _operation("patch", "patch", gvk, definition, scoped, suffix, names)
    kinds = ["apply-patch+yaml", "json-patch+json", "merge-patch+json"]
    if strategic:
        kinds.append("strategic-merge-patch+json")
    operation["requestBody"] = _body(PATCH, *(f"application/{each}" for each in kinds))
    return operation


def _delete(
    action: str, gvk: JsonObject, definition: str, scoped: str, suffix: str = ""
) -> JsonObject:
    names = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
    if action == "deletecollection":
        names += ("fieldSelector", "labelSelector", "limit", "continue")
    operation = _operation(action, action, gvk, definition, scoped, suffix, names)
    operation["requestBody"] = {**_body(DELETE_OPTIONS, "application/json"), "required": False}
    return operation


def _operation(
    action: str,
    word: str,
    gvk: JsonObject,
    definition: str,
    scoped: str,
    suffix: str,
    parameters: tuple[str, ...],
) -> JsonObject:
    group = gvk["group"].removesuffix(".k8s.io") or "core"
    first, *rest = group.split(".")
    camel = first + "".join(part.capitalize() for part in rest)
    pascal = camel[:1].upper() + camel[1:]
    version = gvk["version"]
    operation: JsonObject = {
        "tags": [f"{camel}_{version}"],
        "operationId": f"{word}{pascal}{version.capitalize()}{scoped}{gvk['kind']}{suffix}",
        "responses": {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
    }
    if definition:
        content = _content(definition, "application/json", "application/yaml")
        operation["responses"]["200"]["content"] = content
    if parameters:
        operation["parameters"] = [_PARAMETERS[name] for name in parameters]
    return operation


def _body(definition: str, *media_types: str) -> JsonObject:
    return {"content": _content(definition, *media_types), "required": True}


def _content(definition: str, *media_types: str) -> JsonObject:
    return {each: {"schema": {"$ref": REFERENCE + definition}} for each in media_types}


def _parameter(name: str, description: str, type: str = "string") -> JsonObject:
    schema = {"type": type, "uniqueItems": True}
    return {"name": name, "in": "query", "description": description, "schema": schema}


_PARAMETERS = {
    each["name"]: each
    for each in (
        _parameter("dryRun", "All: do everything but store the change."),
        _parameter("fieldManager", "Who makes the change; required for apply."),
        _parameter(
            "fieldValidation",
            "What to do with unknown and duplicate fields: Ignore, Warn (default) or Strict.",
        ),
        _parameter("force", "Take over fields that others manage; for apply only.", "boolean"),
        _parameter("gracePeriodSeconds", "Time to end in; 0 deletes at once.", "integer"),
        _parameter("propagationPolicy", "Of dependents: Orphan, Background or Foreground."),
        _parameter("fieldSelector", "Only objects whose fields match."),
        _parameter("labelSelector", "Only objects whose labels match."),
        _parameter("limit", "At most so many objects.", "integer"),
        _parameter("continue", "Where the previous page ended."),
        _parameter("resourceVersion", "How recent the answer must be."),
        _parameter("resourceVersionMatch", "How resourceVersion is meant: Exact, NotOlderThan."),
        _parameter("timeoutSeconds", "End after this time.", "integer"),
        _parameter("watch", "Send changes as they happen.", "boolean"),
        _parameter("allowWatchBookmarks", "Tell the version in between.", "boolean"),
        _parameter("sendInitialEvents", "Begin a watch with what is there.", "boolean"),
    )
}
_LIST_PARAMETERS = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)


def _path_parameters(path: str) -> list[JsonObject]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in ("name", "namespace")
        if f"{{{name}}}" in path
    ]
