"""All runnables of the manager, for a `kube.Manager`.

    manager = build_manager(client, EndpointSource("s3://fleet/prod"))
    process.manager.add(*manager.runnables)

The leader is elected through the fleet's store, and not by a Lease of the hub.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from kilonova.fleet.manager.context import ManagerContext
from kilonova.fleet.manager.fleet_pass import FleetLeader
from kilonova.fleet.manager.hub import Hub, build_hub
from kilonova.fleet.manager.hub_writer import HubWriter
from kilonova.fleet.manager.metrics import FleetMetrics
from kilonova.fleet.manager.settings import ManagerSettings
from kilonova.fleet.store import (
    FLEET_TIMING,
    EndpointSource,
    FleetElection,
    FleetStore,
    FleetTerm,
    open_fleet_store,
)
from kilonova.kube import NO_RUNTIME_METRICS, Client, Runnable, RuntimeMetrics
from kilonova.kube.election import LeaderElectionTiming, LeadershipLost
from kilonova.kube.election.fencing import MonotonicClock, boot_clock
from kilonova.kube.events import EventRecorder, random_id
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.observability.structured_logging import get_logger

log = get_logger(__name__)

COMPONENT = "kilonova-fleet"
"""The reporting component of events."""
_HUB_SYNC_SECONDS = 10.0
"""How long a new leader waits for the epochs that the hub knows."""


class ManagerElection:
    """Leads whenever this manager is elected."""

    name = "fleet manager"

    def __init__(
        self, election: FleetElection, context: ManagerContext, wake: asyncio.Event
    ) -> None:
        self._election = election
        self._context = context
        self._wake = wake

    async def run(self) -> None:
        """Take part in elections until cancelled."""
        stores = self._context.hub
        watched = [
            stores.clusters.store.add_event_handler(self._on_change),
            stores.deployments.store.add_event_handler(self._on_change),
            stores.releases.store.add_event_handler(self._on_change),
        ]
        try:
            while True:
                try:
                    await self._election.run(self._lead)
                except LeadershipLost as error:
                    log.warning("leadership lost, attempting to acquire it again", error=str(error))
        finally:
            for unsubscribe in watched:
                unsubscribe()

    async def _lead(self, term: FleetTerm) -> None:
        await FleetLeader(self._context, term, self._wake).run()

    def _on_change(self, old: object, new: object) -> None:
        """Wake the leader; its own status writes change no generation, and do not."""
        before, after = getattr(old, "metadata", None), getattr(new, "metadata", None)
        if before is not None and after is not None:
            fields = ("generation", "labels", "deletion_timestamp", "finalizers")
            if all(getattr(before, each) == getattr(after, each) for each in fields):
                return
        self._wake.set()


@dataclass(frozen=True, slots=True)
class FleetManager:
    """The runnables of one manager."""

    hub: Hub
    election: FleetElection
    runnables: tuple[Runnable, ...]
    """All of them are for every replica: they elect a leader among themselves."""


def build_manager(
    client: Client,
    source: EndpointSource,
    settings: ManagerSettings | None = None,
    *,
    open_store: Callable[[str], FleetStore] = open_fleet_store,
    identity: str = "",
    timing: LeaderElectionTiming = FLEET_TIMING,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    boot: MonotonicClock = boot_clock,
    registry: CollectorRegistry | None = None,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    new_id: Callable[[], str] = random_id,
) -> FleetManager:
    """Build a manager over a client of its hub."""
    hub = build_hub(client, runtime_metrics)
    metrics = None if registry is None else FleetMetrics(registry)
    recorder = EventRecorder(
        client,
        COMPONENT,
        metrics=runtime_metrics if isinstance(runtime_metrics, Metrics) else None,
        clock=monotonic,
        wall=now,
        new_id=new_id,
    )

    async def find_accepted_epoch() -> int:
        with suppress(TimeoutError):  # without a hub, the store has it
            async with asyncio.timeout(_HUB_SYNC_SECONDS):
                await hub.clusters.wait_for_sync()
        clusters = hub.clusters.store.objects()
        return max((each.status.epoch or 0 for each in clusters), default=0)

    election = FleetElection(
        source,
        find_accepted_epoch=find_accepted_epoch,
        open_store=open_store,
        identity=identity,
        timing=timing,
        on_leadership_change=metrics.record_leadership if metrics else lambda leading: None,
        clock=boot,
        wall=now,
    )
    writer = HubWriter(client, lambda: election.is_leading)
    context = ManagerContext(
        hub, writer, recorder, settings or ManagerSettings(), metrics, now, boot
    )
    runner = ManagerElection(election, context, asyncio.Event())
    return FleetManager(hub, election, (*hub.runnables, recorder, writer, runner))
