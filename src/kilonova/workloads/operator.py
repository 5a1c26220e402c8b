"""All runnables of the PodCliqueSet operator, for a `kube.Manager`.

    operator = build_operator(client, OperatorSettings())
    manager.add(*operator.runnables)
    manager.add_leader_runnables(*operator.leader_runnables)

Controllers write, so they run only under leader election.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from kilonova.kube import NO_RUNTIME_METRICS, Client, Runnable, RuntimeMetrics
from kilonova.kube.events import EventRecorder, random_id
from kilonova.kube.observability.metrics import Metrics
from kilonova.workloads.backends.assembly import EnabledBackends, build_backends
from kilonova.workloads.caches import Caches, build_caches
from kilonova.workloads.context import ControllerContext
from kilonova.workloads.controllers.podclique.controller import build_clique_controller
from kilonova.workloads.controllers.podcliqueset.controller import build_set_controller
from kilonova.workloads.controllers.podcliqueset_replica.controller import build_replica_controller
from kilonova.workloads.controllers.topology.controller import build_topology_controller
from kilonova.workloads.settings import OperatorSettings

COMPONENT = "kilonova-operator"
"""The reporting component of events."""


@dataclass(frozen=True, slots=True)
class Operator:
    """The runnables of an operator."""

    caches: Caches
    recorder: EventRecorder
    leader_runnables: tuple[Runnable, ...]
    """Controllers: they write, so only the elected leader runs them."""
    backends: EnabledBackends

    @property
    def runnables(self) -> list[Runnable]:
        """What every replica of the operator runs: caches, so that a new leader can start at once,
        and events.
        """
        return [*self.caches.runnables, *self.backends.runnables, self.recorder]


def build_operator(
    client: Client,
    settings: OperatorSettings,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    new_id: Callable[[], str] = random_id,
) -> Operator:
    """Build an operator over a client.

    `now` is the wall clock, `monotonic` never goes backwards. `new_id` makes the names of events.
    """
    caches = build_caches(client, compute_domains=settings.mnnvl, runtime_metrics=runtime_metrics)
    recorder = EventRecorder(
        client,
        COMPONENT,
        metrics=runtime_metrics if isinstance(runtime_metrics, Metrics) else None,
        clock=monotonic,
        wall=now,
        new_id=new_id,
    )
    context = ControllerContext(client, caches, recorder, settings, now, monotonic, runtime_metrics)
    sets = build_set_controller(context)
    replicas = build_replica_controller(context)
    cliques = build_clique_controller(context)
    backends = build_backends(client, caches, recorder, settings, runtime_metrics)
    topologies = build_topology_controller(
        client, caches, recorder, now, runtime_metrics, backends.topologies
    )
    controllers = (sets, replicas, cliques, topologies, *backends.leader_runnables)
    return Operator(caches, recorder, controllers, backends)
