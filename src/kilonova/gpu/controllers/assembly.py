"""All runnables of the controllers of GPU objects, for a `kube.Manager`.

    controllers = build_gpu_controllers(client, ControllerSettings())
    manager.add(*controllers.runnables)
    manager.add_leader_runnables(*controllers.leader_runnables)

Controllers write, so they run only under leader election.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from kilonova.gpu.controllers.caches import Caches, build_caches
from kilonova.gpu.controllers.context import ControllerContext
from kilonova.gpu.controllers.gpuworkload.controller import build_workload_controller
from kilonova.gpu.controllers.migstrategy.controller import build_strategy_controllers
from kilonova.gpu.controllers.settings import ControllerSettings
from kilonova.kube import NO_RUNTIME_METRICS, Client, Runnable, RuntimeMetrics
from kilonova.kube.events import EventRecorder, random_id
from kilonova.kube.observability.metrics import Metrics

COMPONENT = "kilonova-gpu"
"""The reporting component of events."""


@dataclass(frozen=True, slots=True)
class GpuControllers:
    """The runnables of the controllers."""

    caches: Caches
    recorder: EventRecorder
    leader_runnables: tuple[Runnable, ...]
    """Controllers: they write, so only the elected leader runs them."""

    @property
    def runnables(self) -> list[Runnable]:
        """What every replica runs: caches, so that a new leader can start at once, and events."""
        return [*self.caches.runnables, self.recorder]


def build_gpu_controllers(
    client: Client,
    settings: ControllerSettings | None = None,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    new_id: Callable[[], str] = random_id,
) -> GpuControllers:
    """Build the controllers over a client.

    `now` is the wall clock, `monotonic` never goes backwards. `new_id` makes the names of events.
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
        settings or ControllerSettings(),
        now,
        monotonic,
        runtime_metrics,
    )
    controllers = (build_workload_controller(context), *build_strategy_controllers(context))
    return GpuControllers(caches, recorder, controllers)
