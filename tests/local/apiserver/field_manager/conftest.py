"""A small kind with every type of field, and managers that apply to and update its objects."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from kilonova.local.apimachinery.patch import deep_copy
from kilonova.local.apiserver.field_manager import apply, record_update
from kilonova.local.apiserver.schema.builtin import custom_schema
from kilonova.local.apiserver.schema.node import Schema

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def _map_list(keys: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
        "items": {"type": "object", "properties": properties},
    }


SPEC: dict[str, Any] = {
    "numeric": INTEGER,
    "string": STRING,
    "flag": {"type": "boolean"},
    "atomicList": {"type": "array", "items": STRING},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
    "list": _map_list(["name"], name=STRING, value=INTEGER, nested={"type": "object"}),
    "ports": _map_list(
        ["port", "protocol"],
        port=INTEGER,
        protocol={"type": "string", "default": "TCP"},
        name=STRING,
    ),
    "map": {"type": "object", "additionalProperties": INTEGER},
    "mapOfMaps": {
        "type": "object",
        "additionalProperties": {"type": "object", "additionalProperties": INTEGER},
    },
    "struct": {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}},
    "atomicStruct": {
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {"a": INTEGER, "b": INTEGER},
    },
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "quantity": {"x-kubernetes-int-or-string": True},
}


@pytest.fixture(scope="session")
def schema() -> Schema:
    return custom_schema(
        {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": SPEC},
                "status": {"type": "object", "properties": {"phase": STRING}},
            },
        }
    )


@dataclass(repr=False)
class Cluster:
    """One object and its history. `drops_nulls`: as decoding to a built-in kind does."""

    schema: Schema
    live: dict[str, Any] | None = None
    drops_nulls: bool = False
    _seconds: Any = field(default_factory=count)

    def apply(self, manager: str, spec: dict[str, Any], *, force: bool = False) -> None:
        """Apply a configuration with this spec."""
        config = {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {"name": "x"},
            "spec": spec,
        }
        self.live = apply(
            self.live,
            config,
            self.schema,
            manager=manager,
            force=force,
            api_version="example.com/v1",
            time=self._now(),
        )
        if self.drops_nulls:
            spec = {key: value for key, value in self.live["spec"].items() if value is not None}
            self.live["spec"] = spec

    def update(self, manager: str, spec: dict[str, Any]) -> None:
        """Update the object to this spec."""
        new: dict[str, Any] = deep_copy(self.live) or {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {"name": "x"},
        }
        new["spec"] = spec
        record_update(
            self.live,
            new,
            self.schema,
            manager=manager,
            api_version="example.com/v1",
            time=self._now(),
        )
        self.live = new

    def _now(self) -> str:
        seconds = next(self._seconds)
        return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"

    @property
    def spec(self) -> Any:
        assert self.live is not None
        return self.live.get("spec")

    def owned(self, manager: str) -> Any:
        """The fields of the spec that a manager owns, or None."""
        assert self.live is not None
        for entry in self.live["metadata"].get("managedFields", ()):
            if entry["manager"] == manager:
                return entry["fieldsV1"].get("f:spec", {})
        return None


@pytest.fixture
def cluster(schema: Schema) -> Cluster:
    return Cluster(schema)
