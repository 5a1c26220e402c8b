"""Which pods of a Job to create and delete. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.patch import deep_copy
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.controllers.batch.job.pods.counts import JobPodCounts, index_of, indexes_of
from kilonova.local.controllers.batch.job.pods.failures import (
    JobBackoff,
    build_failure_annotations,
    index_backoff_remaining,
)
from kilonova.local.controllers.batch.objects import COMPLETION_INDEX, TRACKING_FINALIZER, Job
from kilonova.local.objects.core import Pod

MAX_PODS_PER_SYNC = 500
_MAX_GENERATED_NAME_BASE = 58
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class PodChanges:
    """Pods to create or delete. At most one of the two lists is not empty."""

    delete: tuple[Pod, ...] = ()
    create: tuple[JsonObject, ...] = ()
    requeue_after: float = 0.0
    """Seconds until further pods may be created."""


def plan_pod_changes(counts: JobPodCounts, backoff: JobBackoff, now: datetime) -> PodChanges:
    """Bring the pods of a running Job to the desired number."""
    job = counts.job
    if job.spec.suspend:
        return PodChanges(delete=_select_pods_to_delete(counts, len(counts.active)))
    desired = _desired_active(counts)
    surplus = _select_pods_to_delete(counts, max(0, len(counts.active) - desired))[
        :MAX_PODS_PER_SYNC
    ]
    if surplus:
        return PodChanges(delete=surplus)
    terminating = counts.terminating if job.replaces_only_failed else 0
    missing = desired - terminating - len(counts.active)
    if missing <= 0:
        return PodChanges()
    wait = 0.0 if job.has_backoff_limit_per_index else backoff.remaining(now)
    if wait:
        return PodChanges(requeue_after=wait)
    missing = min(missing, MAX_PODS_PER_SYNC)
    if not job.is_indexed:
        return PodChanges(create=tuple(build_pod(job) for _ in range(missing)))
    return _plan_indexed_pods(counts, missing, now)


def _desired_active(counts: JobPodCounts) -> int:
    spec = counts.job.spec
    if spec.completions is None:
        # One success means that the work is complete: no pods are created, running ones may end.
        return len(counts.active) if counts.succeeded else spec.parallelism
    return max(0, min(spec.completions - counts.succeeded, spec.parallelism))


def _plan_indexed_pods(counts: JobPodCounts, missing: int, now: datetime) -> PodChanges:
    job = counts.job
    taken = counts.succeeded_indexes | indexes_of(counts.active, job)
    if job.replaces_only_failed:
        terminating = [
            pod for pod in counts.pods if not pod.is_terminal and pod.metadata.deletion_timestamp
        ]
        taken |= indexes_of(terminating, job)
    if counts.failed_indexes is not None:
        taken |= counts.failed_indexes
    indexes = list(islice(taken.iter_missing(job.spec.completions or 0), missing))
    if not job.has_backoff_limit_per_index:
        return PodChanges(create=tuple(build_pod(job, index) for index in indexes))
    replaced = dict(counts.awaiting_replacement)
    waits = {index: index_backoff_remaining(replaced.get(index), now) for index in indexes}
    ready = [index for index in indexes if not waits[index]]
    if not ready and waits:
        return PodChanges(requeue_after=min(waits.values()))
    return PodChanges(create=tuple(build_pod(job, index, replaced.get(index)) for index in ready))


def _select_pods_to_delete(counts: JobPodCounts, minimum: int) -> tuple[Pod, ...]:
    """Pods to delete: without a valid index, with a duplicate one, then the youngest."""
    job = counts.job
    removed: list[Pod] = []
    left: list[Pod] = []
    if not job.is_indexed:
        left += counts.active
    else:
        by_index = sorted(counts.active, key=lambda pod: _index_or_default(-1, pod, job))
        for index, pods in groupby(by_index, key=lambda pod: _index_or_default(-1, pod, job)):
            ranked = sorted(pods, key=deletion_order)
            remaining = 0 if index < 0 else 1
            removed += ranked[: len(ranked) - remaining]
            left += ranked[len(ranked) - remaining :]
    if len(removed) < minimum:
        removed += sorted(left, key=deletion_order)[: minimum - len(removed)]
    return tuple(removed)


def _index_or_default(default: int, pod: Pod, job: Job) -> int:
    found = index_of(pod, job)
    return default if found is None else found


def deletion_order(pod: Pod) -> tuple[Any, ...]:
    """Sorts pods by the progress lost with them, the least first."""
    ready = pod.condition("Ready") if pod.is_ready else None
    statuses = pod.status.container_statuses
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        pod.is_ready,
        _reverse_order((ready.last_transition_time if ready is not None else None) or ""),
        -max((status.restart_count for status in statuses), default=0),
        _reverse_order(pod.metadata.creation_timestamp),
        pod.metadata.name,
    )


def _reverse_order(timestamp: str) -> tuple[int, ...]:
    """Sorts later times before earlier ones, and no time before any."""
    return tuple(-ord(letter) for letter in timestamp)


def build_pod(job: Job, index: int | None = None, replaced: Pod | None = None) -> JsonObject:
    """A pod of a Job, for an index if it is an indexed Job."""
    template: JsonObject = deep_copy(job.spec.template)
    metadata: JsonObject = {**nested_object(template, "metadata")}
    spec: JsonObject = template.get("spec") or {}
    finalizers: Sequence[str] = metadata.get("finalizers") or []
    pod: JsonObject = {
        "metadata": {
            "generateName": f"{job.metadata.name}-",
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "finalizers": [
                *finalizers,
                *([] if TRACKING_FINALIZER in finalizers else [TRACKING_FINALIZER]),
            ],
            "ownerReferences": [build_owner_reference(job)],
        },
        "spec": spec,
    }
    if index is not None:
        _assign_index(pod, job, index)
        if job.has_backoff_limit_per_index:
            pod["metadata"]["annotations"] |= build_failure_annotations(job, replaced)
    return pod


def _assign_index(pod: JsonObject, job: Job, index: int) -> None:
    """Set the pod's index in its name, annotation, label, hostname and environment."""
    metadata, spec = pod["metadata"], pod["spec"]
    ending = f"-{index}-"
    prefix = job.metadata.name[: _MAX_GENERATED_NAME_BASE - len(ending)]
    metadata["generateName"] = prefix + ending
    metadata["annotations"][COMPLETION_INDEX] = metadata["labels"][COMPLETION_INDEX] = str(index)
    spec["hostname"] = f"{job.metadata.name}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    for container in (*nested_objects(spec, "initContainers"), *nested_objects(spec, "containers")):
        environment = nested_objects(container, "env")
        if not any(each.get("name") == _INDEX_VARIABLE for each in environment):
            container["env"] = [*environment, {"name": _INDEX_VARIABLE, "valueFrom": source}]


def build_owner_reference(job: Job) -> JsonObject:
    """The controller reference of a Job's pods."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
