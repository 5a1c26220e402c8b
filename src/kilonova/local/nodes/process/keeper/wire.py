"""Containers as JSON, for the socket and for records."""

from dataclasses import asdict, fields
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.local.nodes.process.runtime import ContainerSpec, ContainerState, Limits, Mount


def spec_to_json(spec: ContainerSpec) -> JsonObject:
    """As an order carries it."""
    return {
        **{each.name: getattr(spec, each.name) for each in fields(spec)},
        "env": dict(spec.env),
        "log": str(spec.log),
        "mounts": [[str(each.source), each.target, each.read_only] for each in spec.mounts],
        "limits": [spec.limits.cpu_millis, spec.limits.memory_bytes],
    }


def spec_from_json(value: JsonObject) -> ContainerSpec:
    """The other way."""
    mounts = (Mount(Path(source), *rest) for source, *rest in value["mounts"])
    changed: JsonObject = {
        "command": tuple(value["command"]),
        "log": Path(value["log"]),
        "mounts": tuple(mounts),
        "hidden": tuple(value["hidden"]),
        "limits": Limits(*value["limits"]),
    }
    return ContainerSpec(**{**value, **changed})


def state_to_json(state: ContainerState) -> JsonObject:
    """As an answer carries it."""
    return asdict(state)


def state_from_json(value: JsonObject) -> ContainerState:
    """The other way."""
    return ContainerState(**value)
