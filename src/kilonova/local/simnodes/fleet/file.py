"""The fleet file. Every error names the field, the value found, and a valid value."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from kilonova.local.simnodes.fleet.machine_types import (
    MachineTypeError,
    apply_machine_types,
    is_known_machine_type,
)
from kilonova.local.simnodes.fleet.model import FIELDS_OF_THE_NODE, Fleet, NodeGroup
from kilonova.local.simnodes.fleet.validation import iter_fleet_problems
from kilonova.yaml_files import (
    WRITE_OBJECT,
    YamlFileError,
    describe_mismatch,
    describe_yaml_error,
    format_value,
    read_yaml,
)


class FleetError(Exception):
    """An invalid fleet file: names the field, the value found, and a valid value."""


def read_fleet(path: Path) -> Fleet:
    """The fleet that a YAML file describes; `FleetError` names the invalid field."""
    try:
        source = read_yaml(path)
    except YamlFileError as error:
        raise FleetError(str(error)) from None
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
        raise FleetError(f"{format_value(fields)} is invalid: {WRITE_OBJECT}")
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
        raise FleetError(str(describe_mismatch(source, Fleet, error))) from error
    for problem in iter_fleet_problems(fleet):
        raise FleetError(problem)
    return fleet
