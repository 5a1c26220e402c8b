"""The options of connections to pods and services as objects, for admission."""

from kilonova.api.json import JsonObject
from kilonova.kube.client.transport import Query
from kilonova.local.apiserver.admission.version_conversion import request_kind
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget

_FLAGS = ("stdin", "stdout", "stderr", "tty")
_LISTS = ("command", "ports")
_STRINGS = ("container", "path")


def connect_options(target: ResourceTarget, query: Query) -> JsonObject:
    """The query of a connection as an options object: a PodExecOptions, say."""
    name = request_kind(target.kind, target.subresource)
    options: JsonObject = {"kind": name.kind, "apiVersion": name.api_version}
    for field, value in query:
        if field in _FLAGS:
            if value.lower() in ("true", "1", "t"):
                options[field] = True
        elif field in _LISTS:
            values = value.split(",") if field == "ports" else [value]
            parsed = [
                int(each) if each.isdecimal() and field == "ports" else each for each in values
            ]
            options[field] = [*options.get(field, []), *parsed]
        elif field in _STRINGS and value:
            options[field] = value
    return options


def apply_connect_options(options: JsonObject, query: Query) -> Query:
    """The query with the values of the options; parameters that are no options stay."""
    updated: Query = [each for each in query if each[0] not in (*_FLAGS, *_LISTS, *_STRINGS)]
    updated += [(field, "true") for field in _FLAGS if options.get(field)]
    updated += [(field, str(each)) for field in _LISTS for each in options.get(field) or ()]
    updated += [(field, options[field]) for field in _STRINGS if options.get(field)]
    return updated
