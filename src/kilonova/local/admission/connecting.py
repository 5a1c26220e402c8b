"""Connections to pods and services, as those who may refuse them see them: as objects."""

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Query
from kilonova.local.admission.versions import type_name
from kilonova.local.routes import Target

_FLAGS = ("stdin", "stdout", "stderr", "tty")
_LISTS = ("command", "ports")
_TEXTS = ("container", "path")


def connect_options(target: Target, query: Query) -> JsonObject:
    """What the query of a connection asks for: a PodExecOptions, say."""
    name = type_name(target.kind, target.subresource)
    options: JsonObject = {"kind": name.kind, "apiVersion": name.api_version}
    for field, value in query:
        if field in _FLAGS:
            if value.lower() in ("true", "1", "t"):
                options[field] = True
        elif field in _LISTS:
            values = value.split(",") if field == "ports" else [value]
            told = [int(each) if each.isdecimal() and field == "ports" else each for each in values]
            options[field] = [*options.get(field, []), *told]
        elif field in _TEXTS and value:
            options[field] = value
    return options


def connect_query(options: JsonObject, query: Query) -> Query:
    """The query with what the options say; what is no option of the connection stays."""
    asked: Query = [each for each in query if each[0] not in (*_FLAGS, *_LISTS, *_TEXTS)]
    asked += [(field, "true") for field in _FLAGS if options.get(field)]
    asked += [(field, str(each)) for field in _LISTS for each in options.get(field) or ()]
    asked += [(field, options[field]) for field in _TEXTS if options.get(field)]
    return asked
