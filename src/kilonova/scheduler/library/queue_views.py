"""Queues for display: limits, usage and pending gangs. The fields are the JSON output.

The figures of a live cluster are those that its scheduler wrote to the status of its Queues; only
for a snapshot file they are computed, as the scheduler would.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kilonova.api.meta import Condition
from kilonova.api.scheduling import NOT_OBSERVED, Queue, QueueStatus
from kilonova.kube.status import find_condition
from kilonova.scheduler.convert.queues import convert_queues
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.queueing.queues import QueueForest
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.status.queue_figures import compute_queue_figures
from kilonova.scheduler.status.queue_status import READY, queue_status, to_quantities

_UNOBSERVED = Condition(READY, "False", "NotObserved", NOT_OBSERVED)


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue including its children; amounts are Kubernetes quantities."""

    name: str
    parent: str
    depth: int
    priority: int
    weight: int
    deserved: dict[str, int | str]
    limit: dict[str, int | str]
    used: dict[str, int | str]
    requested: dict[str, int | str]
    fair_share: dict[str, int | str]
    pending_gangs: int
    pending_gang_names: tuple[str, ...]
    """Pending gangs of the queue itself."""
    ready: bool
    reason: str
    message: str

    @property
    def is_observed(self) -> bool:
        """Whether a scheduler has written the figures."""
        return self.reason != _UNOBSERVED.reason


def read_queue_views(queues: Iterable[Queue], pending: Iterable[Gang]) -> tuple[QueueView, ...]:
    """The Queues of a live cluster with their status, in order of names, each followed by its
    children; `pending` are the gangs to name in them."""
    objects = {queue.metadata.name: queue for queue in queues}
    statuses = {name: queue.status for name, queue in objects.items()}
    return _build_views(convert_queues(objects.values()), statuses, pending)


def compute_queue_views(cluster_snapshot: ClusterSnapshot) -> tuple[QueueView, ...]:
    """The queues of a snapshot, with computed figures, in the same order."""
    cluster = cluster_snapshot.to_cluster()
    figures = compute_queue_figures(cluster, cluster_snapshot.pending_gangs)
    statuses = {name: queue_status(name, each, cluster.forest) for name, each in figures.items()}
    return _build_views(cluster.forest, statuses, cluster_snapshot.pending_gangs)


def _build_views(
    forest: QueueForest, statuses: Mapping[str, QueueStatus], pending: Iterable[Gang]
) -> tuple[QueueView, ...]:
    """The queues that have a status; the forest has a default queue even without an object."""
    names: dict[str, list[str]] = {}
    for gang in pending:
        names.setdefault(gang.queue, []).append(gang.name)
    ordered = sorted(statuses, key=lambda name: forest.queues[name].path[::-1])
    return tuple(
        _build_view(forest, name, statuses[name], tuple(names.get(name, ()))) for name in ordered
    )


def _build_view(
    forest: QueueForest, name: str, status: QueueStatus, pending: tuple[str, ...]
) -> QueueView:
    queue = forest.queues[name]
    condition = find_condition(status.conditions, READY) or _UNOBSERVED
    return QueueView(
        name,
        queue.path[1] if len(queue.path) > 1 else "",
        len(queue.path) - 1,
        queue.priority,
        queue.weight,
        to_quantities(queue.deserved),
        to_quantities(queue.limit),
        status.allocated,
        status.requested,
        status.fair_share,
        status.pending_gangs,
        pending,
        condition.status == "True",
        condition.reason,
        condition.message,
    )
