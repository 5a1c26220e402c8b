"""Live metrics of GPUs: what a node's agent measures of each device.

A NodeMetrics object of `metrics.k8s.io` may carry them as the annotation
`gpu.kilonova.dev/metrics`, a JSON array: `[{"index": 0, "utilisation": 0.83, "memory": 41210,
"power": 512, "temperature": 61}]`. Everything but `index` is optional. A device in MIG mode has
`instances`: `[{"profile": "1g.10gb", "start": 4, "utilisation": 0.5, "memory": 9100}]`, with the
utilisation as a share of what the instance has.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

ANNOTATION = "gpu.kilonova.dev/metrics"


class InstanceReading(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What is measured of one MIG instance; None is unknown."""

    profile: str
    start: Annotated[int, Meta(ge=0, lt=64)] = 0
    utilisation: Annotated[float, Meta(ge=0, le=1)] | None = None
    memory: Annotated[int, Meta(ge=0)] | None = None
    """Memory in use, in MiB."""


class GpuReading(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What is measured of one device; None is unknown."""

    index: Annotated[int, Meta(ge=0, lt=1024)]
    utilisation: Annotated[float, Meta(ge=0, le=1)] | None = None
    """The share of time in which it was busy, 0 to 1."""
    memory: Annotated[int, Meta(ge=0)] | None = None
    """Memory in use, in MiB."""
    power: Annotated[float, Meta(ge=0)] | None = None
    """In watts."""
    temperature: float | None = None
    """In degrees Celsius."""
    instances: Annotated[tuple[InstanceReading, ...], Meta(max_length=64)] = ()


def format_readings(readings: tuple[GpuReading, ...]) -> str:
    """The value of the annotation."""
    return msgspec.json.encode(readings).decode()


def parse_readings(text: str) -> tuple[GpuReading, ...]:
    """The readings of an annotation; none if it is missing or invalid."""
    try:
        return msgspec.json.decode(text, type=tuple[GpuReading, ...]) if text else ()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ()
