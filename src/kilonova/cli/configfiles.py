"""Configuration files: YAML of a known shape, and what is wrong with it in words."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import yaml

from kilonova.api.json import JsonObject
from kilonova.cli.failure import CommandFailed
from kilonova.kube.yamlproblems import yaml_problem

T = TypeVar("T")


def read_config(file: Path, parse: Callable[[bytes], T]) -> T:
    """Read a file; `CommandFailed` names the file, the field that cannot be, and the rule.

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


def fields_of(content: bytes, kind: str) -> JsonObject:
    """The fields of a YAML text; ValueError if it is none, or no object."""
    try:
        written: object = msgspec.yaml.decode(content)
    except msgspec.DecodeError as error:
        # Raised `from None`: what the parser said is only in the context.
        found = error.__context__
        problem = yaml_problem(found) if isinstance(found, yaml.YAMLError) else "syntax error"
        raise ValueError(f"is not YAML: {problem}") from None
    if not isinstance(written, dict):
        raise ValueError(f"is no {kind}")
    return cast("JsonObject", written)


def converted(written: JsonObject, type_: type[T]) -> T:
    """Fields as a type has them; ValueError begins with the field at fault."""
    try:
        return msgspec.convert(written, type_)
    except msgspec.ValidationError as error:
        raise ValueError(_with_field(str(error), written)) from None


_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


def _with_field(message: str, written: JsonObject) -> str:
    """`Expected int, got str - at `$.server.port`` with the field first."""
    problem, _, where = message.partition(" - at `$")
    path = where.rstrip("`")
    field = path.removeprefix(".").removesuffix("[...]")
    if not field:
        return problem
    value = None if path.endswith("[...]") else _at(written, path)
    shown = isinstance(value, str | int | float) and repr(value) not in problem
    return f"{field}: {problem}: {value!r}" if shown else f"{field}: {problem}"


def _at(written: JsonObject, path: str) -> object:
    found: Any = written
    for name, index in _PATH.findall(path):
        found = found[name] if name else found[int(index)]
    return found
