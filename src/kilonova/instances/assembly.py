"""All runnables of the controllers of inference engines, for a `kube.Manager`.

    controllers = build_instance_controllers(client, InstanceSettings())
    manager.add(*controllers.runnables)
    manager.add_leader_runnables(*controllers.leader_runnables)

Controllers write, so they run only under leader election.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from kilonova.api.scheduling_names import SCHEDULER_NAME
from kilonova.instances.caches import Caches, build_caches
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.deployment.controller import build_deployment_controller
from kilonova.instances.controllers.instance.controller import build_instance_controller
from kilonova.instances.metrics import InstanceMetrics
from kilonova.instances.settings import InstanceSettings
from kilonova.kube import NO_RUNTIME_METRICS, Client, Runnable, RuntimeMetrics
from kilonova.kube.events import EventRecorder, random_id
from kilonova.kube.observability.metrics import Metrics
from kilonova.scheduler.library.snapshots.live import LiveSnapshots
from kilonova.scheduler.settings import SchedulerSettings

COMPONENT = "kilonova-instances"
"""The reporting component of events."""


@dataclass(frozen=True, slots=True)
class InstanceControllers:
    """The runnables of the controllers."""

    caches: Caches
    recorder: EventRecorder
    leader_runnables: tuple[Runnable, ...]
    """Controllers: they write, so only the elected leader runs them."""

    @property
    def runnables(self) -> list[Runnable]:
        """What every replica runs: caches, so that a new leader can start at once, and events."""
        return [*self.caches.runnables, self.recorder]


def build_instance_controllers(
    client: Client,
    settings: InstanceSettings | None = None,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    registry: CollectorRegistry | None = None,
    new_id: Callable[[], str] = random_id,
) -> InstanceControllers:
    """Build the controllers over a client.

    `now` is the wall clock, `monotonic` never goes backwards. `registry` gets the metrics of
    instances. `new_id` makes the names of events.
    """
    caches = build_caches(client, runtime_metrics)
    recorder = EventRecorder(
        client,
        COMPONENT,
        metrics=runtime_metrics if isinstance(runtime_metrics, Metrics) else None,
        clock=monotonic,
        wall=now,
        new_id=new_id,
    )
    context = ControllerContext(
        client,
        caches,
        recorder,
        settings or InstanceSettings(),
        now,
        monotonic,
        runtime_metrics,
        new_id,
        InstanceMetrics(registry),
    )
    controllers = (
        *build_deployment_controller(context, _build_snapshots(context)),
        build_instance_controller(context),
    )
    return InstanceControllers(caches, recorder, controllers)


def _build_snapshots(context: ControllerContext) -> LiveSnapshots | None:
    """The cluster as our scheduler sees it; of another scheduler nothing is known."""
    if context.settings.scheduler_name != SCHEDULER_NAME:
        return None
    return LiveSnapshots(
        context.client,
        SchedulerSettings(),
        now=context.now,
        monotonic=context.monotonic,
        runtime_metrics=context.runtime_metrics,
        new_id=context.new_id,
    )
