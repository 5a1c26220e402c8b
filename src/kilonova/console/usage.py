"""What nodes use, asked for now and then while somebody looks.

`metrics.k8s.io` cannot be watched. A cluster without it, or whose metrics we may not see, has an
empty table.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kilonova.console.noderows import usage_row
from kilonova.console.objects import METRICS, Node, NodeMetrics
from kilonova.console.rows import UsageRow
from kilonova.console.tables import Table
from kilonova.kube import Client, KubeError, Store
from kilonova.kube.logging import get_logger

_EVERY_SECONDS = 15.0

log = get_logger(__name__)


class UsagePoller:
    """Keeps a store of what nodes use. `needed` returns when somebody wants to know. A part of the
    process."""

    name = "usage of nodes"

    def __init__(
        self,
        client: Client,
        store: Store[NodeMetrics],
        needed: Callable[[], Awaitable[None]],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._store = store
        self._needed = needed
        self._sleep = sleep

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        while True:
            await self._needed()
            try:
                listing = await self._client.list(METRICS, on_undecodable=lambda _: None)
                self._take(listing.items)
            except KubeError as error:
                log.debug("usage of nodes is not known", error=str(error))
                self._take([])
            await self._sleep(_EVERY_SECONDS)

    def _take(self, items: list[NodeMetrics]) -> None:
        """Without versions, what was measured says whether anything changed."""
        store = self._store
        seen = {store.key_of(each): each for each in items}
        for key in set(store.keys()) - seen.keys():
            store.remove(key)
        for key, each in seen.items():
            old = store.get(key)
            if old is None or old.usage != each.usage:
                store.put(each)


def usage_store() -> Store[NodeMetrics]:
    """Where usage is kept: there is none, as far as is known, before somebody asks for it."""
    store = Store(NodeMetrics)
    store.synced = True
    return store


def usage_table(nodes: Store[Node] | None) -> Table[NodeMetrics]:
    """The table of what nodes use, as shares of what they have."""

    def row(metrics: NodeMetrics) -> UsageRow:
        key = ("", metrics.metadata.name)
        return usage_row(metrics, nodes.get(key) if nodes is not None else None)

    return Table("usage", METRICS, row)
