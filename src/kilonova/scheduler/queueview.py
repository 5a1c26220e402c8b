"""Queues as people are shown them: what they may use, use and wait for. Plain values, whose fields
are their JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.queues import Forest
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.queuefigures import Figures, queue_figures
from kilonova.scheduler.queuestatus import quantities, ready


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue. Amounts are written as Kubernetes does; of those below it, all is in it."""

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
    waiting: tuple[str, ...]
    """Gangs that wait in the queue itself."""
    ready: bool
    reason: str
    message: str


def queues_in(picture: Picture) -> tuple[QueueView, ...]:
    """All queues, each followed by those below it, in order of names."""
    cluster = picture.cluster()
    forest = cluster.forest
    figures = queue_figures(cluster, picture.waiting)
    waiting: dict[str, list[str]] = {}
    for gang in picture.waiting:
        waiting.setdefault(gang.queue, []).append(gang.name)
    ordered = sorted(forest.queues, key=lambda name: forest.queues[name].path[::-1])
    return tuple(_view(forest, name, figures[name], waiting.get(name, ())) for name in ordered)


def _view(forest: Forest, name: str, figures: Figures, waiting: Sequence[str]) -> QueueView:
    queue = forest.queues[name]
    condition = ready(name, forest)
    return QueueView(
        name,
        queue.path[1] if len(queue.path) > 1 else "",
        len(queue.path) - 1,
        queue.priority,
        queue.weight,
        quantities(queue.deserved),
        quantities(queue.limit),
        quantities(figures.allocated),
        quantities(figures.requested),
        quantities(figures.fair_share),
        figures.pending,
        tuple(waiting),
        condition.status == "True",
        condition.reason,
        condition.message,
    )
