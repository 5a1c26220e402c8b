"""Resource usage of nodes and their GPUs, polled while there are viewers.

`metrics.k8s.io` does not support watches. The table is empty if the cluster does not serve it, or
access is forbidden.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kilonova.component.console import Table
from kilonova.console.feeds.gpu_readings import GpuReadings
from kilonova.console.objects import METRICS, Node, NodeMetrics
from kilonova.console.rows.model import UsageRow
from kilonova.console.rows.nodes import usage_row
from kilonova.kube import Client, KubeError, Store
from kilonova.kube.observability.structured_logging import get_logger

_POLL_SECONDS = 15.0

log = get_logger(__name__)


class UsagePoller:
    """Polls node metrics into a store while there are viewers. A runnable.

    `wait_needed` returns when there is a viewer.
    """

    name = "usage of nodes"

    def __init__(
        self,
        client: Client,
        store: Store[NodeMetrics],
        gpu_readings: GpuReadings,
        wait_needed: Callable[[], Awaitable[None]],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._store = store
        self._gpu_readings = gpu_readings
        self._wait_needed = wait_needed
        self._sleep = sleep

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self._wait_needed()
            try:
                items = (await self._client.list(METRICS, on_undecodable=lambda _: None)).items
            except KubeError as error:
                log.debug("node metrics not available", error=str(error))
                items = []
            self._update_store(items)
            await self._gpu_readings.update(self._client, items)
            await self._sleep(_POLL_SECONDS)

    def _update_store(self, items: list[NodeMetrics]) -> None:
        """Metrics have no resource version: objects are compared by their usage."""
        store = self._store
        listed = {store.key_of(each): each for each in items}
        for key in set(store.keys()) - listed.keys():
            store.remove(key)
        for key, each in listed.items():
            old = store.get(key)
            if old is None or old.usage != each.usage:
                store.put(each)


def build_usage_store() -> Store[NodeMetrics]:
    """The store of node metrics; synced from the start, since it is empty before the first poll."""
    store = Store(NodeMetrics)
    store.has_synced = True
    return store


def build_usage_table(nodes: Store[Node] | None) -> Table[NodeMetrics]:
    """The table of node usage, as shares of allocatable resources."""

    def row(metrics: NodeMetrics) -> UsageRow:
        key = ("", metrics.metadata.name)
        return usage_row(metrics, nodes.get(key) if nodes is not None else None)

    return Table("usage", METRICS, row)
