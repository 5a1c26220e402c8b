"""All parts of an operator of PodCliqueSets, to be run by a `kube.Manager`.

operator = build_operator(client, Settings())
manager.add(*operator.parts)
manager.add_leading(*operator.leading)
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from kilonova.kube import UNMEASURED, Client, Instruments, Part
from kilonova.kube.events import Recorder, random_id
from kilonova.kube.metrics import Metrics
from kilonova.workloads.backends.enabled import EnabledBackends, build_backends
from kilonova.workloads.caches import Caches, build_caches
from kilonova.workloads.cliques.controller import build_clique_controller
from kilonova.workloads.means import Means
from kilonova.workloads.replicas.controller import build_replica_controller
from kilonova.workloads.sets.controller import build_set_controller
from kilonova.workloads.settings import Settings
from kilonova.workloads.topologies import build_topology_controller

COMPONENT = "kilonova-operator"
"""Who reports events."""


@dataclass(frozen=True, slots=True)
class Operator:
    """What an operator consists of."""

    caches: Caches
    recorder: Recorder
    leading: tuple[Part, ...]
    """Controllers, which write: of several copies of an operator only one may run them."""
    backends: EnabledBackends

    @property
    def parts(self) -> list[Part]:
        """What runs in every copy: caches, so that another can take over at once, and events."""
        return [*self.caches.parts, *self.backends.parts, self.recorder]


def build_operator(
    client: Client,
    settings: Settings,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    instruments: Instruments = UNMEASURED,
    new_id: Callable[[], str] = random_id,
) -> Operator:
    """An operator over a client; `now` is the time of day, `monotonic` only goes forward. Events
    are named with new ids."""
    caches = build_caches(client, compute_domains=settings.mnnvl, instruments=instruments)
    recorder = Recorder(
        client,
        COMPONENT,
        metrics=instruments if isinstance(instruments, Metrics) else None,
        clock=monotonic,
        wall=now,
        new_id=new_id,
    )
    means = Means(client, caches, recorder, settings, now, monotonic, instruments)
    sets = build_set_controller(means)
    replicas = build_replica_controller(means)
    cliques = build_clique_controller(means)
    backends = build_backends(client, caches, recorder, settings, instruments)
    topologies = build_topology_controller(
        client, caches, recorder, now, instruments, backends.topologies
    )
    leading = (sets, replicas, cliques, topologies, *backends.leading)
    return Operator(caches, recorder, leading, backends)
