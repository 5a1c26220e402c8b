"""ContainerSpec and ContainerState as JSON, for the socket and for records."""

from dataclasses import asdict, fields
from pathlib import Path

from kilonova.local.processnode.cri.api import (
    ContainerSpec,
    ContainerState,
    JsonObject,
    Limits,
    Mount,
)


def encode_spec(spec: ContainerSpec) -> JsonObject:
    """The JSON of a spec, as in a request."""
    return {
        **{each.name: getattr(spec, each.name) for each in fields(spec)},
        "env": dict(spec.env),
        "log": str(spec.log),
        "mounts": [[str(each.source), each.target, each.read_only] for each in spec.mounts],
        "limits": [spec.limits.cpu_millis, spec.limits.memory_bytes],
    }


def decode_spec(value: JsonObject) -> ContainerSpec:
    """Parse the JSON of a spec."""
    mounts = (Mount(Path(source), *rest) for source, *rest in value["mounts"])
    changed: JsonObject = {
        "command": tuple(value["command"]),
        "log": Path(value["log"]),
        "mounts": tuple(mounts),
        "hidden": tuple(value["hidden"]),
        "limits": Limits(*value["limits"]),
    }
    return ContainerSpec(**{**value, **changed})


def encode_state(state: ContainerState) -> JsonObject:
    """The JSON of a state, as in a response and in records."""
    return asdict(state)


def decode_state(value: JsonObject) -> ContainerState:
    """Parse the JSON of a state."""
    return ContainerState(**value)
