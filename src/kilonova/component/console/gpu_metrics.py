"""Sources of live metrics of GPUs, shown on the map."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from kilonova.api.gpu.metrics import GpuReading
from kilonova.kube import Client


@dataclass(frozen=True, slots=True)
class GpuMetricsSource:
    """Reads the metrics of all GPUs that an agent publishes.

    `read` is called every 15 seconds while a page is open, with the permissions of the console. An
    error of the API server leaves its nodes without metrics until the next call. Nodes whose
    NodeMetrics have the annotation of `kilonova.api.gpu.metrics` need no source.
    """

    name: str
    read: Callable[[Client], Awaitable[Mapping[str, tuple[GpuReading, ...]]]]
    """Readings by the name of the node."""
