"""The agent: one task applies what is desired, another reports what is observed.

They share the store, which is opened again when its endpoint changes. Whatever fails is tried again
at the next interval; until then the cluster goes on as it is.
"""

import asyncio

from kilonova.fleet.member.accelerators import AcceleratorUsage
from kilonova.fleet.member.apply import Applier
from kilonova.fleet.member.context import MemberContext, Progress
from kilonova.fleet.member.report import Reporter
from kilonova.fleet.store import (
    FleetStore,
)
from kilonova.kube.observability.structured_logging import get_logger

log = get_logger(__name__)


class MemberAgent:
    """Applies and reports until cancelled."""

    name = "fleet member"

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self._progress = Progress()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow the store of the current endpoint."""
        context = self._context
        caches, source = context.caches, context.source
        for each in (caches.deployments, caches.instances, caches.nodes, caches.pods):
            await each.wait_for_sync()
        usage = AcceleratorUsage(caches.nodes.store, caches.pods.store)
        unsubscribe = [
            caches.deployments.store.add_event_handler(self._on_change),
            caches.instances.store.add_event_handler(self._on_change),
        ]
        try:
            while True:
                endpoint = source.read()
                store = context.open_store(endpoint)
                try:
                    await self._follow(store, endpoint, usage)
                finally:
                    await store.close()
        finally:
            for each in unsubscribe:
                each()

    def _on_change(self, old: object, new: object) -> None:
        self._changed.set()

    async def _follow(self, store: FleetStore, endpoint: str, usage: AcceleratorUsage) -> None:
        """Until the endpoint changes."""
        applier = Applier(self._context, store, self._progress)
        reporter = Reporter(self._context, store, self._progress, usage, self._changed)
        tasks = [
            asyncio.create_task(applier.run()),
            asyncio.create_task(reporter.run()),
            asyncio.create_task(self._context.source.wait_for_change(endpoint)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
        log.info("endpoint changed", previous=store.name)
