"""Metrics of GPUWorkloads, under KGWE's names.

Computed from changes in the cache of workloads. Runs under leader election, so that one replica of
the operator reports; what happened before it started is not counted.
"""

import asyncio
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kilonova.api.kgwe import GPUWorkload
from kilonova.api.times import parse_time
from kilonova.gpu.controllers.caches import Caches
from kilonova.kube.observability.object_metrics import LabelSets, ObjectGauge, observe_objects

_DURATIONS = (60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400)
_WAITING = ("Pending", "Scheduling")
_ACTIVE = ("Scheduled", "Running")
_ENDED = ("Succeeded", "Failed")
_OPTIMAL_SCORE = 80
"""The topology score from which on KGWE calls a placement optimal."""


class WorkloadMetrics:
    """Metrics of workloads in a Prometheus registry; `run` keeps them up to date."""

    name = "gpuworkload metrics"

    def __init__(self, caches: Caches, registry: CollectorRegistry) -> None:
        self._workloads = caches.workloads
        self._active = ObjectGauge(
            "kgwe_active_workloads",
            "GPUWorkloads whose pods have nodes, and have not ended.",
            ["namespace", "workload_type"],
            registry,
        )
        self._waiting = Gauge(
            "kgwe_workload_queue_depth",
            "GPUWorkloads that wait to be scheduled.",
            registry=registry,
        )
        self._durations = Histogram(
            "kgwe_workload_duration_seconds",
            "From the start of all pods of a GPUWorkload to its end.",
            registry=registry,
            buckets=_DURATIONS,
        )
        self._optimal = Counter(
            "kgwe_topology_optimal_placements",
            f"Placements of GPUWorkloads with a topology score of {_OPTIMAL_SCORE} or more.",
            registry=registry,
        )

    async def run(self) -> None:
        """Update the metrics until cancelled."""
        stop = observe_objects(self._workloads.store, self._on_change)
        try:
            await asyncio.Event().wait()
        finally:
            stop()

    def _on_change(self, old: GPUWorkload | None, new: GPUWorkload | None) -> None:
        self._active.move_object(_active_labels(old), _active_labels(new))
        if (change := _is_waiting(new) - _is_waiting(old)) != 0:
            self._waiting.inc(change)
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            return
        if new.status.phase in _ENDED and old.status.phase not in _ENDED:
            start, end = new.status.start_time, new.status.completion_time
            if start is not None and end is not None:
                self._durations.observe(_seconds_between(parse_time(start), parse_time(end)))
        if _is_optimal(new) and not _is_optimal(old):
            self._optimal.inc()


def _active_labels(workload: GPUWorkload | None) -> LabelSets:
    if workload is None or workload.status.phase not in _ACTIVE:
        return frozenset()
    return frozenset({(workload.metadata.namespace, workload.spec.workload_type)})


def _is_waiting(workload: GPUWorkload | None) -> int:
    return workload is not None and workload.status.phase in _WAITING


def _is_optimal(workload: GPUWorkload) -> bool:
    """Whether all pods have a node, and their GPUs are well connected."""
    status = workload.status
    score = None if status.score_parts is None else status.score_parts.topology
    return status.phase in _ACTIVE and score is not None and score >= _OPTIMAL_SCORE


def _seconds_between(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())
