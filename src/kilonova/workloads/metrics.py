"""How workloads are doing, for Prometheus.

Worked out from changes in the caches, each at a cost that does not depend on how many objects
there are. Labels are a namespace, a set, or one of few words: a series goes with the set, or when
nothing is left to count. A part that leads runs this, so that of several copies of the operator
one tells.

What happened while nobody looked is not counted: after a restart, counters begin at 0 as all
counters of Prometheus may, and a gang that was ready once is not timed again.
"""

import asyncio
from collections import Counter as Tally
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, names
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.api.times import parse_time
from kilonova.kube import Reflector
from kilonova.workloads.caches import Caches
from kilonova.workloads.conditions import holds
from kilonova.workloads.keys import incarnation_of
from kilonova.workloads.resources import Pod

T = TypeVar("T")

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
_Troubled: TypeAlias = PodCliqueSet | PodClique | PodCliqueScalingGroup
_Labels: TypeAlias = set[tuple[str, ...]]
_Milestone: TypeAlias = Literal["Scheduled", "Ready"]


class WorkloadMetrics:
    """The measurements of one operator, in a registry; `run` keeps them up to date."""

    name = "workload metrics"

    def __init__(
        self, caches: Caches, registry: CollectorRegistry, now: Callable[[], datetime]
    ) -> None:
        self._caches = caches
        self._now = now
        self._waiting: dict[str, _Waiting] = {}
        self._gangs = _Counts(
            Gauge("kilonova_gangs", "PodGangs.", ["namespace", "phase"], registry=registry)
        )
        self._updating = _Counts(
            Gauge(
                "kilonova_sets_updating",
                "PodCliqueSets whose update is under way.",
                ["namespace"],
                registry=registry,
            )
        )
        self._errors = _Counts(
            Gauge(
                "kilonova_last_errors",
                "What went wrong with objects of the operator and has not gone well since.",
                ["namespace", "kind", "code"],
                registry=registry,
            )
        )
        self._milestones: dict[_Milestone, Histogram] = {
            "Scheduled": Histogram(
                "kilonova_gang_scheduled_seconds",
                "From the creation of a PodGang until it is scheduled for the first time.",
                ["namespace"],
                registry=registry,
                buckets=_SECONDS,
            ),
            "Ready": Histogram(
                "kilonova_gang_ready_seconds",
                "From the creation of a PodGang until it is ready for the first time.",
                ["namespace"],
                registry=registry,
                buckets=_SECONDS,
            ),
        }
        self._updates = Histogram(
            "kilonova_set_update_seconds",
            "From the begin to the end of a PodCliqueSet's update.",
            ["namespace"],
            registry=registry,
            buckets=_SECONDS,
        )
        of_set = ["namespace", "podcliqueset"]
        self._restarts = Counter(
            "kilonova_pod_restarts",
            "Containers of pods that were started again in place.",
            of_set,
            registry=registry,
        )
        self._anew = Counter(
            "kilonova_cliques_started_anew",
            "PodCliques whose pods were all replaced since their gang was broken for too long.",
            of_set,
            registry=registry,
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        caches = self._caches
        with ExitStack() as ending:
            for stop in (
                _follow(caches.gangs, self._gang_changed),
                _follow(caches.sets, self._set_changed),
                _follow(caches.cliques, self._clique_changed),
                _follow(caches.groups, self._group_changed),
                _follow(caches.pods, self._pod_changed),
            ):
                ending.callback(stop)
            await asyncio.Event().wait()

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        self._gangs.change(_phases(old), _phases(new))
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._waiting.pop(old.metadata.uid, None)
            old = None
        if new is None:
            return
        if old is None and not holds(new.status.conditions, "Ready") and not new.status.last_ready:
            self._waiting[new.metadata.uid] = self._first_sight(new)
        waiting = self._waiting.get(new.metadata.uid)
        if waiting is not None:
            self._tell_milestones(waiting, new)

    def _first_sight(self, gang: PodGang) -> "_Waiting":
        # The time of creation has whole seconds; of those that we see come we know it better.
        arrived = self._caches.gangs.store.synced
        since = self._now() if arrived else parse_time(gang.metadata.creation_timestamp)
        return _Waiting(since, scheduled=holds(gang.status.conditions, "Scheduled"))

    def _tell_milestones(self, waiting: "_Waiting", gang: PodGang) -> None:
        seconds = (self._now() - waiting.since).total_seconds()
        namespace = gang.metadata.namespace
        if not waiting.scheduled and holds(gang.status.conditions, "Scheduled"):
            waiting.scheduled = True
            self._milestones["Scheduled"].labels(namespace).observe(seconds)
        if holds(gang.status.conditions, "Ready"):
            del self._waiting[gang.metadata.uid]
            self._milestones["Ready"].labels(namespace).observe(seconds)

    def _set_changed(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        self._count_errors("PodCliqueSet", old, new)
        self._updating.change(_updates(old), _updates(new))
        if new is None and old is not None:
            for counter in (self._restarts, self._anew):
                counter.remove(old.metadata.namespace, old.metadata.name)
        elif new is not None and _updates(old) and not _updates(new):
            progress = new.status.update_progress
            if progress and progress.update_started_at and progress.update_ended_at:
                begin, end = map(parse_time, (progress.update_started_at, progress.update_ended_at))
                seconds = (end - begin).total_seconds()
                self._updates.labels(new.metadata.namespace).observe(seconds)

    def _clique_changed(self, old: PodClique | None, new: PodClique | None) -> None:
        self._count_errors("PodClique", old, new)
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            return
        # With a new template it is an update that replaces them.
        replaced = incarnation_of(new.metadata) > incarnation_of(old.metadata)
        if replaced and _template(old.metadata) == _template(new.metadata):
            self._anew.labels(*_set_labels(new.metadata)).inc()

    def _group_changed(
        self, old: PodCliqueScalingGroup | None, new: PodCliqueScalingGroup | None
    ) -> None:
        self._count_errors("PodCliqueScalingGroup", old, new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            return
        more = _restarts(new) - _restarts(old)
        if more > 0:
            self._restarts.labels(*_set_labels(new.metadata)).inc(more)

    def _count_errors(self, kind: str, old: _Troubled | None, new: _Troubled | None) -> None:
        self._errors.change(_errors(kind, old), _errors(kind, new))


@dataclass(slots=True)
class _Waiting:
    """A gang that was not ready yet."""

    since: datetime
    scheduled: bool


class _Counts:
    """A gauge that counts objects by labels; labels that no object has are not shown."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._counts: Tally[tuple[str, ...]] = Tally()

    def change(self, before: _Labels, after: _Labels) -> None:
        """An object was counted under these labels, and is now under those."""
        for labels in before ^ after:
            self._counts[labels] += 1 if labels in after else -1
            if self._counts[labels]:
                self._gauge.labels(*labels).set(self._counts[labels])
            else:
                del self._counts[labels]
                self._gauge.remove(*labels)


def _follow(
    cache: Reflector[T], changed: Callable[[T | None, T | None], None]
) -> Callable[[], None]:
    for each in list(cache.store.objects()):
        changed(None, each)
    return cache.store.subscribe(changed)


def _phases(gang: PodGang | None) -> _Labels:
    return {(gang.metadata.namespace, gang.status.phase)} if gang is not None else set()


def _updates(set_: PodCliqueSet | None) -> _Labels:
    progress = set_.status.update_progress if set_ is not None else None
    if set_ is None or progress is None or progress.update_ended_at:
        return set()
    return {(set_.metadata.namespace,)} if progress.update_started_at else set()


def _errors(kind: str, troubled: _Troubled | None) -> _Labels:
    if troubled is None:
        return set()
    return {(troubled.metadata.namespace, kind, each.code) for each in troubled.status.last_errors}


def _set_labels(child: Metadata) -> tuple[str, str]:
    return child.namespace, child.labels.get(names.PART_OF, "")


def _template(clique: Metadata) -> str:
    return clique.labels.get(names.POD_TEMPLATE_HASH, "")


def _restarts(pod: Pod) -> int:
    return sum(each.restart_count for each in pod.status.container_statuses)
