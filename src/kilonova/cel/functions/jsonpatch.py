"""Functions for JSON patch expressions."""

from kilonova.cel.functions.declaration import FunctionLibrary

JSON_PATCH = FunctionLibrary()


@JSON_PATCH.function("jsonpatch.escapeKey", "string -> string")
def escape_key(text: str) -> str:
    """A key as a segment of a JSON pointer: `a/b` is `a~1b`."""
    return text.replace("~", "~0").replace("/", "~1")
