"""Prometheus metrics of workloads.

Computed from changes in the caches, each at a cost that does not depend on the number of objects.
Labels are a namespace, a set, or one of a few constants: a series is removed with its set, or when
nothing is left to count. Runs under leader election, so that one replica of the operator reports.

Changes before the operator started are not counted: counters start at 0 after a restart, and a gang
that has been ready once is not timed again.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Histogram

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, names
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.api.times import parse_time
from kilonova.kube.observability.object_metrics import LabelSets, ObjectGauge, observe_objects
from kilonova.kube.status import is_condition_true
from kilonova.workloads.caches import Caches
from kilonova.workloads.keys import get_incarnation
from kilonova.workloads.resources import Pod

_DURATION_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
_ObjectWithErrors: TypeAlias = PodCliqueSet | PodClique | PodCliqueScalingGroup
_Milestone: TypeAlias = Literal["Scheduled", "Ready"]


class WorkloadMetrics:
    """Workload metrics in a Prometheus registry; `run` keeps them up to date."""

    name = "workload metrics"

    def __init__(
        self, caches: Caches, registry: CollectorRegistry, now: Callable[[], datetime]
    ) -> None:
        self._caches = caches
        self._now = now
        self._unready_gangs: dict[str, _UnreadyGang] = {}
        self._gangs = ObjectGauge("kilonova_gangs", "PodGangs.", ["namespace", "phase"], registry)
        self._updating = ObjectGauge(
            "kilonova_podcliquesets_updating",
            "PodCliqueSets with an update in progress.",
            ["namespace"],
            registry,
        )
        self._errors = ObjectGauge(
            "kilonova_unresolved_errors",
            "Errors in lastErrors of the operator's objects, not resolved yet.",
            ["namespace", "kind", "code"],
            registry,
        )
        self._milestones: dict[_Milestone, Histogram] = {
            "Scheduled": Histogram(
                "kilonova_gang_scheduled_seconds",
                "From the creation of a PodGang until it is scheduled for the first time.",
                ["namespace"],
                registry=registry,
                buckets=_DURATION_BUCKETS,
            ),
            "Ready": Histogram(
                "kilonova_gang_ready_seconds",
                "From the creation of a PodGang until it is ready for the first time.",
                ["namespace"],
                registry=registry,
                buckets=_DURATION_BUCKETS,
            ),
        }
        self._update_seconds = Histogram(
            "kilonova_podcliqueset_update_seconds",
            "Duration of a PodCliqueSet's update.",
            ["namespace"],
            registry=registry,
            buckets=_DURATION_BUCKETS,
        )
        set_labels = ["namespace", "podcliqueset"]
        self._restarts = Counter(
            "kilonova_pod_restarts",
            "Container restarts in pods of PodCliqueSets.",
            set_labels,
            registry=registry,
        )
        self._clique_restarts = Counter(
            "kilonova_clique_restarts",
            "PodCliques restarted because their gang was below minAvailable for terminationDelay.",
            set_labels,
            registry=registry,
        )

    async def run(self) -> None:
        """Update the metrics until cancelled."""
        caches = self._caches
        with ExitStack() as ending:
            for stop in (
                observe_objects(caches.gangs.store, self._on_gang_change),
                observe_objects(caches.sets.store, self._on_set_change),
                observe_objects(caches.cliques.store, self._on_clique_change),
                observe_objects(caches.groups.store, self._on_group_change),
                observe_objects(caches.pods.store, self._on_pod_change),
            ):
                ending.callback(stop)
            await asyncio.Event().wait()

    def _on_gang_change(self, old: PodGang | None, new: PodGang | None) -> None:
        self._gangs.move_object(_phase_labels(old), _phase_labels(new))
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._unready_gangs.pop(old.metadata.uid, None)
            old = None
        if new is None:
            return
        if (
            old is None
            and not is_condition_true(new.status.conditions, "Ready")
            and not new.status.last_ready
        ):
            self._unready_gangs[new.metadata.uid] = self._start_timing(new)
        unready = self._unready_gangs.get(new.metadata.uid)
        if unready is not None:
            self._observe_milestones(unready, new)

    def _start_timing(self, gang: PodGang) -> "_UnreadyGang":
        # creationTimestamp has whole seconds; for gangs seen in the watch, now is more precise.
        is_new = self._caches.gangs.store.has_synced
        since = self._now() if is_new else parse_time(gang.metadata.creation_timestamp)
        return _UnreadyGang(since, scheduled=is_condition_true(gang.status.conditions, "Scheduled"))

    def _observe_milestones(self, unready: "_UnreadyGang", gang: PodGang) -> None:
        seconds = (self._now() - unready.since).total_seconds()
        namespace = gang.metadata.namespace
        if not unready.scheduled and is_condition_true(gang.status.conditions, "Scheduled"):
            unready.scheduled = True
            self._milestones["Scheduled"].labels(namespace).observe(seconds)
        if is_condition_true(gang.status.conditions, "Ready"):
            del self._unready_gangs[gang.metadata.uid]
            self._milestones["Ready"].labels(namespace).observe(seconds)

    def _on_set_change(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        self._count_errors("PodCliqueSet", old, new)
        self._updating.move_object(_updating_labels(old), _updating_labels(new))
        if new is None and old is not None:
            for counter in (self._restarts, self._clique_restarts):
                counter.remove(old.metadata.namespace, old.metadata.name)
        elif new is not None and _updating_labels(old) and not _updating_labels(new):
            progress = new.status.update_progress
            if progress and progress.update_started_at and progress.update_ended_at:
                begin, end = map(parse_time, (progress.update_started_at, progress.update_ended_at))
                seconds = (end - begin).total_seconds()
                self._update_seconds.labels(new.metadata.namespace).observe(seconds)

    def _on_clique_change(self, old: PodClique | None, new: PodClique | None) -> None:
        self._count_errors("PodClique", old, new)
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            return
        # With a new template the pods are replaced by an update, not by a restart.
        replaced = get_incarnation(new.metadata) > get_incarnation(old.metadata)
        if replaced and _get_template_hash(old.metadata) == _get_template_hash(new.metadata):
            self._clique_restarts.labels(*_set_labels(new.metadata)).inc()

    def _on_group_change(
        self, old: PodCliqueScalingGroup | None, new: PodCliqueScalingGroup | None
    ) -> None:
        self._count_errors("PodCliqueScalingGroup", old, new)

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            return
        restarts = _count_restarts(new) - _count_restarts(old)
        if restarts > 0:
            self._restarts.labels(*_set_labels(new.metadata)).inc(restarts)

    def _count_errors(
        self, kind: str, old: _ObjectWithErrors | None, new: _ObjectWithErrors | None
    ) -> None:
        self._errors.move_object(_error_labels(kind, old), _error_labels(kind, new))


@dataclass(slots=True)
class _UnreadyGang:
    """A gang that has not been ready yet."""

    since: datetime
    scheduled: bool


def _phase_labels(gang: PodGang | None) -> LabelSets:
    return {(gang.metadata.namespace, gang.status.phase)} if gang is not None else set()


def _updating_labels(set_: PodCliqueSet | None) -> LabelSets:
    progress = set_.status.update_progress if set_ is not None else None
    if set_ is None or progress is None or progress.update_ended_at:
        return set()
    return {(set_.metadata.namespace,)} if progress.update_started_at else set()


def _error_labels(kind: str, obj: _ObjectWithErrors | None) -> LabelSets:
    if obj is None:
        return set()
    return {(obj.metadata.namespace, kind, each.code) for each in obj.status.last_errors}


def _set_labels(child: Metadata) -> tuple[str, str]:
    return child.namespace, child.labels.get(names.PART_OF, "")


def _get_template_hash(clique: Metadata) -> str:
    return clique.labels.get(names.POD_TEMPLATE_HASH, "")


def _count_restarts(pod: Pod) -> int:
    return sum(each.restart_count for each in pod.status.container_statuses)
