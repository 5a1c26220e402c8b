"""The operations of a document: enough for clients to know the parameters of a request."""

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.openapi.components import (
    DELETE_OPTIONS,
    PATCH,
    REFERENCE,
    STATUS,
    definition_name,
)
from kilonova.local.apiserver.schema.builtin import builtin_definition_name


def root_path(kind: Kind) -> str:
    """The root path of a kind's group-version: `/api/v1`, `/apis/apps/v1`."""
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def operations(kind: Kind) -> JsonObject:
    """The paths of a kind, each with the operations that its verbs allow."""
    schema_name = definition_name(kind)
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{root_path(kind)}{scope}/{kind.plural}"
    all_namespaces_path = f"{root_path(kind)}/{kind.plural}"
    paths: JsonObject = {}
    if kind.namespaced and "list" in kind.verbs:
        list_schema_name = definition_name(kind, listed=True)
        paths[all_namespaces_path] = {
            "get": _read_operation("list", gvk, list_schema_name, suffix="ForAllNamespaces")
        }
    paths[collection] = _collection_path(kind, gvk, schema_name)
    paths[f"{collection}/{{name}}"] = _object_path(kind.verbs, gvk, schema_name, kind, "")
    for each in kind.subresources.values():
        subresource_gvk = {"group": each.group, "version": each.version, "kind": each.kind}
        name = (
            schema_name
            if subresource_gvk == gvk
            else builtin_definition_name(each.group, each.version, each.kind) or ""
        )
        path = f"{collection}/{{name}}/{each.name}"
        paths[path] = _object_path(each.verbs, subresource_gvk, name, kind, each.name)
    for path, item in paths.items():
        item["parameters"] = _path_parameters(path)
    return {path: item for path, item in paths.items() if len(item) > 1}


def _collection_path(kind: Kind, gvk: JsonObject, definition: str) -> JsonObject:
    item: JsonObject = {}
    list_schema_name = definition_name(kind, listed=True)
    scoped = "Namespaced" if kind.namespaced else ""
    if "list" in kind.verbs:
        item["get"] = _read_operation("list", gvk, list_schema_name, scoped)
    if "create" in kind.verbs:
        item["post"] = _write_operation("post", "create", gvk, definition, scoped)
    if "deletecollection" in kind.verbs:
        item["delete"] = _delete_operation("deletecollection", gvk, STATUS, scoped)
    return item


def _object_path(
    verbs: tuple[str, ...], gvk: JsonObject, definition: str, kind: Kind, subresource: str
) -> JsonObject:
    scoped = "Namespaced" if kind.namespaced else ""
    suffix = subresource[:1].upper() + subresource[1:]
    item: JsonObject = {}
    if "get" in verbs:
        item["get"] = _read_operation("get", gvk, definition, scoped, suffix)
    if "create" in verbs and subresource:
        item["post"] = _write_operation("post", "create", gvk, definition, scoped, suffix)
    if "update" in verbs:
        item["put"] = _write_operation("put", "replace", gvk, definition, scoped, suffix)
    if "patch" in verbs:
        item["patch"] = _patch_operation(
            gvk, definition, scoped, suffix, strategic=not kind.is_custom
        )
    if "delete" in verbs:
        item["delete"] = _delete_operation("delete", gvk, STATUS, scoped, suffix)
    return item


def _read_operation(
    action: str, gvk: JsonObject, definition: str, scoped: str = "", suffix: str = ""
) -> JsonObject:
    verb = "read" if action == "get" else action
    names = _LIST_PARAMETERS if action == "list" else ()
    return _operation(action, verb, gvk, definition, scoped, suffix, names)


def _write_operation(
    action: str, verb: str, gvk: JsonObject, definition: str, scoped: str, suffix: str = ""
) -> JsonObject:
    names = ("dryRun", "fieldManager", "fieldValidation")
    operation = _operation(action, verb, gvk, definition, scoped, suffix, names)
    if definition:  # otherwise a connect subresource, such as exec
        operation["requestBody"] = _request_body(definition, "application/json", "application/yaml")
    return operation


def _patch_operation(
    gvk: JsonObject, definition: str, scoped: str, suffix: str, *, strategic: bool
) -> JsonObject:
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    operation = _operation("patch", "patch", gvk, definition, scoped, suffix, names)
    kinds = ["apply-patch+yaml", "json-patch+json", "merge-patch+json"]
    if strategic:
        kinds.append("strategic-merge-patch+json")
    operation["requestBody"] = _request_body(PATCH, *(f"application/{each}" for each in kinds))
    return operation


def _delete_operation(
    action: str, gvk: JsonObject, definition: str, scoped: str, suffix: str = ""
) -> JsonObject:
    names = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
    if action == "deletecollection":
        names += ("fieldSelector", "labelSelector", "limit", "continue")
    operation = _operation(action, action, gvk, definition, scoped, suffix, names)
    operation["requestBody"] = {
        **_request_body(DELETE_OPTIONS, "application/json"),
        "required": False,
    }
    return operation


def _operation(
    action: str,
    verb: str,
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
        "operationId": f"{verb}{pascal}{version.capitalize()}{scoped}{gvk['kind']}{suffix}",
        "responses": {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
    }
    if definition:
        content = _response_content(definition, "application/json", "application/yaml")
        operation["responses"]["200"]["content"] = content
    if parameters:
        operation["parameters"] = [_PARAMETERS[name] for name in parameters]
    return operation


def _request_body(definition: str, *media_types: str) -> JsonObject:
    return {"content": _response_content(definition, *media_types), "required": True}


def _response_content(definition: str, *media_types: str) -> JsonObject:
    return {each: {"schema": {"$ref": REFERENCE + definition}} for each in media_types}


def _parameter(name: str, description: str, type: str = "string") -> JsonObject:
    schema = {"type": type, "uniqueItems": True}
    return {"name": name, "in": "query", "description": description, "schema": schema}


_PARAMETERS = {
    each["name"]: each
    for each in (
        _parameter("dryRun", "All: process the request without persisting it."),
        _parameter("fieldManager", "Name of the field manager; required for apply."),
        _parameter(
            "fieldValidation",
            "What to do with unknown and duplicate fields: Ignore, Warn (default) or Strict.",
        ),
        _parameter("force", "Acquire fields that other managers own; apply only.", "boolean"),
        _parameter("gracePeriodSeconds", "Grace period; 0 deletes immediately.", "integer"),
        _parameter(
            "propagationPolicy", "How dependents are deleted: Orphan, Background, Foreground."
        ),
        _parameter("fieldSelector", "Only objects whose fields match."),
        _parameter("labelSelector", "Only objects whose labels match."),
        _parameter("limit", "Maximum number of objects.", "integer"),
        _parameter("continue", "Continue token of the previous page."),
        _parameter("resourceVersion", "Minimum or exact resourceVersion of the result."),
        _parameter("resourceVersionMatch", "How resourceVersion applies: Exact, NotOlderThan."),
        _parameter("timeoutSeconds", "Duration of the call.", "integer"),
        _parameter("watch", "Send changes as they happen.", "boolean"),
        _parameter("allowWatchBookmarks", "Send BOOKMARK events.", "boolean"),
        _parameter("sendInitialEvents", "Start with ADDED events for existing objects.", "boolean"),
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
