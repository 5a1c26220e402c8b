"""Live metrics of GPUs, from the metrics of nodes and from the sources of components."""

from collections.abc import Iterable, Sequence

import msgspec

from kilonova.api.gpu.metrics import GpuReading, parse_readings
from kilonova.component.console import GpuMetricsSource, Table
from kilonova.console.objects import NodeMetrics
from kilonova.console.objects.metadata import ObjectMeta
from kilonova.console.rows.model import GpuMetricsRow
from kilonova.kube import Client, KubeError, Resource, Store
from kilonova.kube.observability.structured_logging import get_logger

log = get_logger(__name__)


class NodeGpuReadings(msgspec.Struct, gc=False):
    """The readings of one node, with the metadata by which a store finds it."""

    metadata: ObjectMeta
    gpus: tuple[GpuReading, ...]


def _readings_row(readings: NodeGpuReadings) -> GpuMetricsRow:
    return GpuMetricsRow(id=readings.metadata.name, gpus=readings.gpus)


READINGS = Table(
    "gpumetrics",
    # Not an API resource: it only names the table.
    Resource("", "v1", "gpumetrics", "GpuMetrics", False, NodeGpuReadings),
    _readings_row,
)


def build_readings_store() -> Store[NodeGpuReadings]:
    """The store of readings; synced from the start, since it is empty before the first poll."""
    store = Store(NodeGpuReadings)
    store.has_synced = True
    return store


class GpuReadings:
    """Updates a store of readings; sources replace what NodeMetrics have of a node."""

    def __init__(self, store: Store[NodeGpuReadings], sources: Sequence[GpuMetricsSource]) -> None:
        self._store = store
        self._sources = sources
        self._failed: set[str] = set()
        """Sources whose failure was logged."""

    async def update(self, client: Client, metrics: Iterable[NodeMetrics]) -> None:
        """Read all sources."""
        found = {
            each.metadata.name: parse_readings(each.metadata.annotations.gpus) for each in metrics
        }
        for source in self._sources:
            try:
                found.update(await source.read(client))
            except KubeError as error:
                log.debug("GPU metrics not available", source=source.name, error=str(error))
            except Exception:
                # A defect of one component must not end the console.
                if source.name not in self._failed:
                    self._failed.add(source.name)
                    log.exception("GPU metrics not read: their source failed", source=source.name)
        self._update_store({node: readings for node, readings in found.items() if readings})

    def _update_store(self, found: dict[str, tuple[GpuReading, ...]]) -> None:
        store = self._store
        for key in {*store.keys()} - {("", node) for node in found}:
            store.remove(key)
        for node, readings in found.items():
            old = store.get(("", node))
            if old is None or old.gpus != readings:
                store.put(NodeGpuReadings(ObjectMeta(name=node), readings))
