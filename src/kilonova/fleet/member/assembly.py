"""All runnables of a member's agent, for a `kube.Manager`.

    member = build_member(client, MemberSettings("eu-1"), EndpointSource("s3://fleet/prod"))
    manager.add(*member.runnables)
    manager.add_leader_runnables(*member.leader_runnables)

Of several agents of one member, the elected leader applies and reports.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from kilonova.fleet.member.agent import MemberAgent
from kilonova.fleet.member.caches import Caches, build_caches
from kilonova.fleet.member.context import MemberContext
from kilonova.fleet.member.settings import MemberSettings
from kilonova.fleet.store import (
    ApiEpochStore,
    EndpointSource,
    EpochGuard,
    FleetStore,
    open_fleet_store,
)
from kilonova.kube import NO_RUNTIME_METRICS, Client, Runnable, RuntimeMetrics
from kilonova.kube.events import EventRecorder, random_id
from kilonova.kube.observability.metrics import Metrics

COMPONENT = "kilonova-fleet-member"
"""The reporting component of events."""


@dataclass(frozen=True, slots=True)
class Member:
    """The runnables of the agent."""

    caches: Caches
    recorder: EventRecorder
    leader_runnables: tuple[Runnable, ...]

    @property
    def runnables(self) -> list[Runnable]:
        """What every replica runs."""
        return [*self.caches.runnables, self.recorder]


def build_member(
    client: Client,
    settings: MemberSettings,
    source: EndpointSource,
    *,
    open_store: Callable[[str], FleetStore] = open_fleet_store,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    new_id: Callable[[], str] = random_id,
) -> Member:
    """Build the agent over a client of its cluster."""
    caches = build_caches(client, runtime_metrics)
    recorder = EventRecorder(
        client,
        COMPONENT,
        metrics=runtime_metrics if isinstance(runtime_metrics, Metrics) else None,
        clock=monotonic,
        wall=now,
        new_id=new_id,
    )
    context = MemberContext(
        client,
        caches,
        recorder,
        settings,
        source,
        open_store,
        EpochGuard(ApiEpochStore(client, settings.namespace)),
        now,
    )
    return Member(caches, recorder, (MemberAgent(context),))
