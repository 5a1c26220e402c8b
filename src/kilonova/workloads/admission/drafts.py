"""A set as somebody wants to have it: read from JSON, before it is an object of the API.

It has no uid and no version yet. What its schema refuses does not come here as a rule; where
it does, for want of a schema, it is said in the same form as any other rule.
"""

import re
from collections.abc import Sequence
from typing import Any, cast, get_args

import msgspec

from kilonova.api.grove.parts import Scope
from kilonova.api.grove.podcliqueset import PodCliqueSetSpec, StartupType, StrategyType, Template
from kilonova.api.grove.topology import ClusterTopologyBindingSpec
from kilonova.api.json import JsonObject
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.findings import invalid_value, required, unsupported

_CHOICES = {
    "cliqueStartupType": get_args(StartupType),
    "type": get_args(StrategyType),
    "scope": get_args(Scope),
}
_missing = re.compile(r"Object missing required field `(\w+)`")
_bound = re.compile(r"Expected `int` >= (-?\d+)")
_at = re.compile(r"(.*) - at `\$\.?([^`]*)`", re.DOTALL)
_step = re.compile(r"(\w+)|\[(\d+)\]")


class DraftMetadata(msgspec.Struct, frozen=True, gc=False):
    """What people say of an object beside its spec."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class SetDraft(msgspec.Struct, frozen=True, gc=False):
    """A PodCliqueSet to be."""

    spec: PodCliqueSetSpec
    metadata: DraftMetadata = DraftMetadata()

    @property
    def template(self) -> Template:
        """What each replica is made from."""
        return self.spec.template


class TopologyDraft(msgspec.Struct, frozen=True, gc=False):
    """A ClusterTopologyBinding to be."""

    spec: ClusterTopologyBindingSpec


def read_set(obj: JsonObject) -> SetDraft | Problem:
    """The set, or why it is none."""
    try:
        return msgspec.convert(obj, SetDraft)
    except msgspec.ValidationError as error:
        return _problem(obj, str(error))


def read_topology(obj: JsonObject) -> TopologyDraft | Problem:
    """The topology, or why it is none."""
    try:
        return msgspec.convert(obj, TopologyDraft)
    except msgspec.ValidationError as error:
        return _problem(obj, str(error))


def _problem(obj: JsonObject, error: str) -> Problem:
    found = _at.fullmatch(error)
    words, path = (found[1], found[2]) if found else (error, "")
    if missing := _missing.match(words):
        return required(".".join(filter(None, (path, missing[1]))), "must be set")
    value, last = _value_at(obj, path)
    if words.startswith("Invalid enum value") and last in _CHOICES:
        return unsupported(path, value, cast(Sequence[str], _CHOICES[last]))
    if bound := _bound.match(words):
        return invalid_value(path, value, f"must be greater than or equal to {bound[1]}")
    return invalid_value(path, value, words[:1].lower() + words[1:])


def _value_at(obj: JsonObject, path: str) -> tuple[Any, str]:
    """What stands at a path, and the name of the field."""
    value: Any = obj
    last = ""
    for name, index in _step.findall(path):
        value = value[name] if name else value[int(index)]
        last = name or last
    return value, last
