"""Configuration files: YAML decoded into a type, with errors that name the field."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import yaml

from kilonova.api.json import JsonObject
from kilonova.component.failure import CommandFailed
from kilonova.yaml_files import describe_yaml_error

T = TypeVar("T")


def read_config(file: Path, parse: Callable[[bytes], T]) -> T:
    """Read a file; `CommandFailed` names the file, the invalid field and the rule.

    `parse` raises ValueError.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file}: cannot be read: {error.strerror}") from error
    try:
        return parse(content)
    except ValueError as error:
        raise CommandFailed(f"{file}: {error}") from error


def parse_yaml_object(content: bytes, kind: str) -> JsonObject:
    """The fields of a YAML document; ValueError if it is not YAML, or not an object."""
    try:
        decoded: object = msgspec.yaml.decode(content)
    except msgspec.DecodeError as error:
        # Raised `from None`: the error of the parser is only in the context.
        cause = error.__context__
        problem = (
            describe_yaml_error(cause) if isinstance(cause, yaml.YAMLError) else "syntax error"
        )
        raise ValueError(f"is not YAML: {problem}") from None
    if not isinstance(decoded, dict):
        raise ValueError(f"is not a {kind}")
    return cast("JsonObject", decoded)


def convert_fields(fields: JsonObject, type_: type[T]) -> T:
    """Fields converted to a type; ValueError starts with the invalid field."""
    try:
        return msgspec.convert(fields, type_)
    except msgspec.ValidationError as error:
        raise ValueError(_prefix_with_field(str(error), fields)) from None


_PATH_PATTERN = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


def _prefix_with_field(message: str, fields: JsonObject) -> str:
    """msgspec's `Expected int, got str - at `$.server.port``, with the field first."""
    problem, _, where = message.partition(" - at `$")
    path = where.rstrip("`")
    field = path.removeprefix(".").removesuffix("[...]")
    if not field:
        return problem
    value = None if path.endswith("[...]") else _value_at(fields, path)
    show_value = isinstance(value, str | int | float) and repr(value) not in problem
    return f"{field}: {problem}: {value!r}" if show_value else f"{field}: {problem}"


def _value_at(fields: JsonObject, path: str) -> object:
    value: Any = fields
    for name, index in _PATH_PATTERN.findall(path):
        value = value[name] if name else value[int(index)]
    return value
