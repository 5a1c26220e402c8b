"""A PodCliqueSet or ClusterTopologyBinding of an admission request, decoded from JSON.

It has no uid and no resourceVersion yet. Objects that violate the CRD schema do not reach this
module as a rule; where they do, because the schema is missing, the error has the same form as
others.
"""

import re
from collections.abc import Sequence
from typing import Any, cast, get_args

import msgspec

from kilonova.api.grove.common import Scope
from kilonova.api.grove.podcliqueset import PodCliqueSetSpec, StartupType, StrategyType, Template
from kilonova.api.grove.topology import ClusterTopologyBindingSpec
from kilonova.api.json import JsonObject
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    invalid_value,
    required,
    unsupported,
)

_ENUM_VALUES = {
    "cliqueStartupType": get_args(StartupType),
    "type": get_args(StrategyType),
    "scope": get_args(Scope),
}
_missing_field_pattern = re.compile(r"Object missing required field `(\w+)`")
_minimum_pattern = re.compile(r"Expected `int` >= (-?\d+)")
_error_path_pattern = re.compile(r"(.*) - at `\$\.?([^`]*)`", re.DOTALL)
_path_step_pattern = re.compile(r"(\w+)|\[(\d+)\]")


class ManifestMetadata(msgspec.Struct, frozen=True, gc=False):
    """The metadata that users write."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class SetManifest(msgspec.Struct, frozen=True, gc=False):
    """A submitted PodCliqueSet."""

    spec: PodCliqueSetSpec
    metadata: ManifestMetadata = ManifestMetadata()

    @property
    def template(self) -> Template:
        """The template of each replica."""
        return self.spec.template


class TopologyManifest(msgspec.Struct, frozen=True, gc=False):
    """A submitted ClusterTopologyBinding."""

    spec: ClusterTopologyBindingSpec


def decode_set(obj: JsonObject) -> SetManifest | FieldError:
    """The decoded set, or a field error."""
    try:
        return msgspec.convert(obj, SetManifest)
    except msgspec.ValidationError as error:
        return _to_field_error(obj, str(error))


def decode_topology(obj: JsonObject) -> TopologyManifest | FieldError:
    """The decoded topology, or a field error."""
    try:
        return msgspec.convert(obj, TopologyManifest)
    except msgspec.ValidationError as error:
        return _to_field_error(obj, str(error))


def _to_field_error(obj: JsonObject, error: str) -> FieldError:
    found = _error_path_pattern.fullmatch(error)
    message, path = (found[1], found[2]) if found else (error, "")
    if missing := _missing_field_pattern.match(message):
        return required(".".join(filter(None, (path, missing[1]))), "must be set")
    value, field = _get_value_at(obj, path)
    if message.startswith("Invalid enum value") and field in _ENUM_VALUES:
        return unsupported(path, value, cast(Sequence[str], _ENUM_VALUES[field]))
    if bound := _minimum_pattern.match(message):
        return invalid_value(path, value, f"must be greater than or equal to {bound[1]}")
    return invalid_value(path, value, message[:1].lower() + message[1:])


def _get_value_at(obj: JsonObject, path: str) -> tuple[Any, str]:
    """The value at a path, and the name of its field."""
    value: Any = obj
    field = ""
    for name, index in _path_step_pattern.findall(path):
        value = value[name] if name else value[int(index)]
        field = name or field
    return value, field
