"""What expressions that make JSON patches need."""

from kilonova.local.schema.cel.functions.declare import Library

JSON_PATCH = Library()


@JSON_PATCH.function("jsonpatch.escapeKey", "string -> string")
def escape_key(text: str) -> str:
    """A key as a step of a path: `a/b` is `a~1b`."""
    return text.replace("~", "~0").replace("/", "~1")
