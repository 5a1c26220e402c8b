"""The fleet file. Every error names the field, the value found, and a valid value."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import yaml

from kilonova.kube.client.config.yaml_errors import describe_yaml_error
from kilonova.local.simnodes.fleet.machine_types import (
    MachineTypeError,
    apply_machine_types,
    is_known_machine_type,
)
from kilonova.local.simnodes.fleet.model import (
    FIELDS_OF_THE_NODE,
    CapacityRule,
    FailureRates,
    Fleet,
    GpuSpec,
    NodeGroup,
    ScriptStep,
    Taint,
    ZoneFailures,
)
from kilonova.local.simnodes.fleet.validation import iter_fleet_problems

_TYPE_BY_FIELD = {
    "": Fleet,
    "nodes": NodeGroup,
    "gpu": GpuSpec,
    "failures": FailureRates,
    "taints": Taint,
    "zoneFailures": ZoneFailures,
    "script": ScriptStep,
    "capacity": CapacityRule,
}
_FIX_BY_TYPE = {
    "int": "write a whole number",
    "float": "write a number",
    "str": 'write text, in quotes where YAML would read a number, as "1"',
    "array": "write a list: [ … ]",
    "object": "write fields with values: { … }",
}
_MAX_SHOWN = 60
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `(\w+)")


class FleetError(Exception):
    """An invalid fleet file: names the field, the value found, and a valid value."""


def read_fleet(path: Path) -> Fleet:
    """The fleet that a YAML file describes; `FleetError` names the invalid field."""
    try:
        source = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise FleetError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise FleetError(f"{path} is not YAML: {describe_yaml_error(error)}") from None
    try:
        return _convert_fleet({} if source is None else source)
    except FleetError as error:
        raise FleetError(f"{path}: {error}") from error


def parse_group(text: str, machine: str, name: str) -> NodeGroup:
    """The group that fields in JSON or YAML describe, of a machine type if one is named.

    `FleetError` names the invalid field.
    """
    try:
        fields: Any = yaml.safe_load(text) if text else {}
    except yaml.YAMLError as error:
        raise FleetError(f"not YAML: {describe_yaml_error(error)}") from None
    if not isinstance(fields, dict):
        raise FleetError(f"{_format_value(fields)} is invalid: {_FIX_BY_TYPE['object']}")
    for field in FIELDS_OF_THE_NODE:
        if field in fields:
            raise FleetError(f"{field}: is not described here: set it on the Node itself")
    entry: dict[str, Any] = {**fields, "name": name}
    # A machine type that the catalog lacks may be described by the fields alone.
    if machine and (not text or is_known_machine_type(machine)):
        entry["machine"] = machine
    try:
        return _convert_fleet({"nodes": [entry]}).nodes[0]
    except FleetError as error:
        raise FleetError(str(error).removeprefix("nodes[0].")) from None


def _convert_fleet(source: Any) -> Fleet:
    """A fleet from the content of a file."""
    try:
        fleet = msgspec.convert(apply_machine_types(source), Fleet)
    except MachineTypeError as error:
        raise FleetError(str(error)) from None
    except msgspec.ValidationError as error:
        raise FleetError(_describe_mismatch(source, str(error))) from error
    for problem in iter_fleet_problems(fleet):
        raise FleetError(problem)
    return fleet


def _describe_mismatch(source: Any, message: str) -> str:
    """Translate an error of msgspec into the terms of the file."""
    reason, _, where = message.partition(" - at `$")
    path = where.rstrip("`").removeprefix(".")
    place = re.sub(r"\[.*?\]", "", path).rpartition(".")[2]
    if found := _UNKNOWN.fullmatch(reason):
        choices = ", ".join(
            field.encode_name for field in msgspec.structs.fields(_TYPE_BY_FIELD[place])
        )
        return f"{_join_path(path, found[1])}: unknown field: choose from {choices}"
    if found := _MISSING.fullmatch(reason):
        entry = place or "the file"
        return f"{_join_path(path, found[1])}: is missing: required in every entry of {entry}"
    expected = _EXPECTED.match(reason)
    found = _format_value(_find_value(source, path)) if path else "its content"
    fix = _FIX_BY_TYPE.get(expected[1], reason) if expected else reason
    if reason.startswith("Invalid enum value"):
        fix = f"choose from {', '.join(_iter_choices(path))}"
    return f"{path or 'the file'}: {found} is invalid: {fix}"


def _format_value(value: Any) -> str:
    """A value as it is written, if it is short: the content of an unrelated file is not printed."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else "a long text"


def _iter_choices(path: str) -> Iterator[str]:
    place, _, name = re.sub(r"\[.*?\]", "", path).rpartition(".")
    for field in msgspec.structs.fields(_TYPE_BY_FIELD[place.rpartition(".")[2]]):
        if field.encode_name == name:
            yield from filter(None, get_args(field.type))


def _join_path(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def _find_value(source: Any, path: str) -> Any:
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]", path):
        if key:
            source = source[key]
        elif index == "...":  # msgspec does not say which
            return source
        else:
            source = source[int(index)]
    return source
