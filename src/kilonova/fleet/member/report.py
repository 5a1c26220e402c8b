"""Reports what is observed to the store."""

import asyncio

from kilonova.api.times import format_rfc3339
from kilonova.fleet.documents import (
    OBSERVED,
    Observed,
)
from kilonova.fleet.member.accelerators import AcceleratorUsage
from kilonova.fleet.member.caches import BY_DEPLOYMENT
from kilonova.fleet.member.context import MemberContext, Progress
from kilonova.fleet.member.observation import observe_deployments
from kilonova.fleet.member.resources import Instance
from kilonova.fleet.store import (
    FleetStore,
    StoredDocument,
)
from kilonova.kube import Key
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.objectstore import ObjectStoreError, PreconditionFailed

log = get_logger(__name__)


class Reporter:
    """Writes what is observed."""

    def __init__(
        self,
        context: MemberContext,
        store: FleetStore,
        progress: Progress,
        usage: AcceleratorUsage,
        changed: asyncio.Event,
    ) -> None:
        self._context = context
        self._store = store
        self._progress = progress
        self._usage = usage
        self._changed = changed
        self._stored: StoredDocument[Observed] | None = None
        self._has_read = False
        self._is_unavailable = False

    async def run(self) -> None:
        """Report at each change, and at each heartbeat."""
        settings = self._context.settings
        while True:
            self._changed.clear()
            await self._try_report()
            try:
                async with asyncio.timeout(settings.heartbeat_interval):
                    await self._changed.wait()
                    await asyncio.sleep(settings.report_delay)
            except TimeoutError:
                continue

    async def _try_report(self) -> None:
        settings = self._context.settings
        try:
            async with asyncio.timeout(settings.store_timeout):
                await self._write()
        except (ObjectStoreError, TimeoutError) as error:
            self._has_read = self._has_read and not isinstance(error, PreconditionFailed)
            if not self._is_unavailable:
                reason = str(error) or "no response"
                log.warning("report not written, retrying", store=self._store.name, error=reason)
            self._is_unavailable = True
            await asyncio.sleep(settings.poll_interval)
            self._changed.set()
            return
        if self._is_unavailable:
            log.info("reports are written again", store=self._store.name)
        self._is_unavailable = False

    async def _write(self) -> None:
        if not self._has_read:
            self._stored = await self._store.read(OBSERVED, self._context.settings.cluster)
            self._has_read = True
        stored = self._stored
        sequence = stored.document.sequence + 1 if stored is not None else 1
        report = self._build(sequence)
        self._stored = await self._store.write(
            OBSERVED, report, None if stored is None else stored.version
        )

    def _build(self, sequence: int) -> Observed:
        context, progress = self._context, self._progress
        caches = context.caches

        def find_instances(key: Key) -> list[Instance]:
            return caches.instances.store.by_index(BY_DEPLOYMENT, key)

        return Observed(
            cluster=context.settings.cluster,
            sequence=sequence,
            region=context.settings.region,
            console=context.settings.console,
            time=format_rfc3339(context.now()),
            accepted_epoch=context.guard.accepted,
            accepted_sequence=progress.sequence,
            nodes=len(caches.nodes.store),
            accelerators=self._usage.count(),
            deployments=observe_deployments(
                caches.deployments.store.objects(), find_instances, progress.deployment_problems
            ),
            reason=caches.health.reason,
            problems=(progress.problem,) if progress.problem else (),
        )
