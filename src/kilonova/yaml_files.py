"""YAML files that users write, and what is wrong in them, in their terms.

`read_yaml` reads a file. `describe_mismatch` translates an error of msgspec: it names the field,
the value found, and how to fix it. Contents are not quoted beyond short values: a file may be
another one than meant, with secrets.
"""

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    import yaml

_MAX_SHOWN = 60
_FIX_BY_TYPE = {
    "int": "write a whole number",
    "float": "write a number",
    "str": 'write text, in quotes where YAML would read a number, as "1"',
    "array": "write a list: [ … ]",
    "object": "write fields with values: { … }",
    "bool": "write true or false",
}
WRITE_LIST = _FIX_BY_TYPE["array"]
WRITE_OBJECT = _FIX_BY_TYPE["object"]
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `(\w+)[^`]*`(?P<bound>.*?)(, got .*)?")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN_INDEX = "..."
"""What msgspec writes in place of a key of a mapping."""


class YamlFileError(Exception):
    """A file that cannot be read, or is not YAML; the message begins with its path."""


class Mismatch(NamedTuple):
    """A field that does not match its type."""

    field: str
    problem: str
    fix: str
    bound: str = ""
    """The limit that a value of the right type exceeds: `>= 1`."""

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}: {self.fix}"


def read_yaml(path: Path) -> Any:
    """The content of a file; None if it is empty."""
    import yaml  # slow, and few commands read a file

    try:
        return yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise YamlFileError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise YamlFileError(f"{path} is not YAML: {describe_yaml_error(error)}") from None
    except RecursionError:
        raise YamlFileError(f"{path} is not YAML: it is nested too deeply") from None


def describe_yaml_error(error: "yaml.YAMLError") -> str:
    """The problem and its line number. The parser's own messages quote the text, which may contain
    secrets, and span several lines."""
    mark = getattr(error, "problem_mark", None)
    line = f" in line {mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "syntax error"
    return f"{problem}{line}"


def format_value(value: object) -> str:
    """A value as it is written, if it is short."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else "a long text"


def describe_mismatch(
    source: object, type_: object, error: msgspec.ValidationError, where: str = ""
) -> Mismatch:
    """Why `source` could not be converted to a type; `where` is its own place in the file."""
    reason, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`")
    field = f"{where}{path}".removeprefix(".")
    steps = [key or index for key, index in _STEP.findall(path)]
    types_ = tuple(_list_types(type_))
    for step in steps:
        types_ = tuple(found for each in types_ for found in _descend(each, step))
    if found := _UNKNOWN.fullmatch(reason):
        fix = f"choose from {', '.join(_list_fields(types_))}"
        return Mismatch(_join(field, found[1]), "unknown field", fix)
    if found := _MISSING.fullmatch(reason):
        return Mismatch(_join(field, found[1]), "is missing", "it is required")
    shown = format_value(_find_value(source, steps)) if field else "its content"
    fix, bound = reason, ""
    if expected := _EXPECTED.fullmatch(reason):
        bound = expected["bound"].strip()
        fix = " ".join(filter(None, (_FIX_BY_TYPE.get(expected[1], reason), bound)))
    elif choices := ", ".join(_list_choices(types_)):
        fix = f"choose from {choices}"
    return Mismatch(field or "the file", f"{shown} is invalid", fix, bound)


def _join(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def _list_types(type_: Any) -> Iterator[Any]:
    """The members of unions, without annotations."""
    origin = typing.get_origin(type_)
    if origin is typing.Annotated:
        yield from _list_types(typing.get_args(type_)[0])
    elif origin in (typing.Union, types.UnionType):
        for each in typing.get_args(type_):
            yield from _list_types(each)
    else:
        yield type_


def _descend(type_: Any, step: str) -> Iterator[Any]:
    """The types of a field, of an item of a list, or of the values of a mapping."""
    arguments = typing.get_args(type_)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        for field in msgspec.structs.fields(type_):
            if field.encode_name == step:
                yield from _list_types(field.type)
    elif typing.get_origin(type_) is dict:
        yield from _list_types(arguments[1])
    elif typing.get_origin(type_) in (list, tuple):
        is_uniform = arguments[-1] is Ellipsis or len(arguments) == 1
        yield from _list_types(arguments[0 if is_uniform else int(step)])


def _list_fields(types_: tuple[Any, ...]) -> Iterator[str]:
    for each in types_:
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            yield from (field.encode_name for field in msgspec.structs.fields(each))


def _list_choices(types_: tuple[Any, ...]) -> Iterator[str]:
    for each in types_:
        if typing.get_origin(each) is Literal:
            yield from filter(None, map(str, typing.get_args(each)))


def _find_value(source: object, steps: list[str]) -> object:
    value: Any = source
    for step in steps:
        if step == _UNKNOWN_INDEX:  # msgspec does not specify which
            break
        is_index = isinstance(value, list)
        value = value[int(step) if is_index else step]
    return value
