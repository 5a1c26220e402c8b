"""Which pods a job wants to be gone, and which it wants to have. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.controllers.batch.failures import (
    Backoff,
    inherited_failures,
    remaining_for_index,
)
from kilonova.local.controllers.batch.objects import INDEX, TRACKING, Job
from kilonova.local.controllers.batch.tally import Tally, index_of, indexes_of
from kilonova.local.controllers.objects import Pod
from kilonova.local.kinds.walk import objects, part
from kilonova.local.patch import copied

MOST_AT_ONCE = 500
_GENERATED_NAME_BASE = 58
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Changes:
    """What to do about the number of pods. Only one of the two lists has something in it."""

    delete: tuple[Pod, ...] = ()
    create: tuple[JsonObject, ...] = ()
    wait: float = 0.0
    """After how many seconds pods may be created that may not be now."""


def changes(counted: Tally, backoff: Backoff, now: datetime) -> Changes:
    """Bring the pods of a job that goes on to the number it wants."""
    job = counted.job
    if job.spec.suspend:
        return Changes(delete=_too_many(counted, len(counted.active)))
    wanted = _wanted(counted)
    surplus = _too_many(counted, max(0, len(counted.active) - wanted))[:MOST_AT_ONCE]
    if surplus:
        return Changes(delete=surplus)
    leaving = counted.terminating if job.replaces_only_failed else 0
    missing = wanted - leaving - len(counted.active)
    if missing <= 0:
        return Changes()
    wait = 0.0 if job.limited_per_index else backoff.remaining(now)
    if wait:
        return Changes(wait=wait)
    missing = min(missing, MOST_AT_ONCE)
    if not job.indexed:
        return Changes(create=tuple(new_pod(job) for _ in range(missing)))
    return _for_indexes(counted, missing, now)


def _wanted(counted: Tally) -> int:
    spec = counted.job.spec
    if spec.completions is None:
        # One success says that the work is done: what still runs may end.
        return len(counted.active) if counted.succeeded else spec.parallelism
    return max(0, min(spec.completions - counted.succeeded, spec.parallelism))


def _for_indexes(counted: Tally, missing: int, now: datetime) -> Changes:
    job = counted.job
    taken = counted.succeeded_indexes | indexes_of(counted.active, job)
    if job.replaces_only_failed:
        leaving = [pod for pod in counted.pods if not pod.ended and pod.metadata.deletion_timestamp]
        taken |= indexes_of(leaving, job)
    if counted.failed_indexes is not None:
        taken |= counted.failed_indexes
    indexes = list(islice(taken.missing(job.spec.completions or 0), missing))
    if not job.limited_per_index:
        return Changes(create=tuple(new_pod(job, index) for index in indexes))
    replaced = dict(counted.awaiting)
    waits = {index: remaining_for_index(replaced.get(index), now) for index in indexes}
    ready = [index for index in indexes if not waits[index]]
    if not ready and waits:
        return Changes(wait=min(waits.values()))
    return Changes(create=tuple(new_pod(job, index, replaced.get(index)) for index in ready))


def _too_many(counted: Tally, at_least: int) -> tuple[Pod, ...]:
    """Pods to remove: those of no index, or of one that another has too, then the youngest."""
    job = counted.job
    removed: list[Pod] = []
    left: list[Pod] = []
    if not job.indexed:
        left += counted.active
    else:
        by_index = sorted(counted.active, key=lambda pod: _index_or(-1, pod, job))
        for index, pods in groupby(by_index, key=lambda pod: _index_or(-1, pod, job)):
            ranked = sorted(pods, key=expendability)
            kept = 0 if index < 0 else 1
            removed += ranked[: len(ranked) - kept]
            left += ranked[len(ranked) - kept :]
    if len(removed) < at_least:
        removed += sorted(left, key=expendability)[: at_least - len(removed)]
    return tuple(removed)


def _index_or(other: int, pod: Pod, job: Job) -> int:
    found = index_of(pod, job)
    return other if found is None else found


def expendability(pod: Pod) -> tuple[Any, ...]:
    """Sorts pods by how little is lost with them, the least first."""
    ready = pod.condition("Ready") if pod.ready else None
    statuses = pod.status.container_statuses
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        pod.ready,
        _backwards((ready.last_transition_time if ready is not None else None) or ""),
        -max((status.restart_count for status in statuses), default=0),
        _backwards(pod.metadata.creation_timestamp),
        pod.metadata.name,
    )


def _backwards(timestamp: str) -> tuple[int, ...]:
    """Sorts later times before earlier ones, and no time before any."""
    return tuple(-ord(letter) for letter in timestamp)


def new_pod(job: Job, index: int | None = None, replaced: Pod | None = None) -> JsonObject:
    """A pod of a job, for an index of it where it has indexes."""
    template: JsonObject = copied(job.spec.template)
    metadata: JsonObject = {**part(template, "metadata")}
    spec: JsonObject = template.get("spec") or {}
    finalizers: Sequence[str] = metadata.get("finalizers") or []
    pod: JsonObject = {
        "metadata": {
            "generateName": f"{job.metadata.name}-",
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "finalizers": [*finalizers, *([] if TRACKING in finalizers else [TRACKING])],
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }
    if index is not None:
        _assign(pod, job, index)
        if job.limited_per_index:
            pod["metadata"]["annotations"] |= inherited_failures(job, replaced)
    return pod


def _assign(pod: JsonObject, job: Job, index: int) -> None:
    """Tell a pod its index in every way that there is."""
    metadata, spec = pod["metadata"], pod["spec"]
    ending = f"-{index}-"
    prefix = job.metadata.name[: _GENERATED_NAME_BASE - len(ending)]
    metadata["generateName"] = prefix + ending
    metadata["annotations"][INDEX] = metadata["labels"][INDEX] = str(index)
    spec["hostname"] = f"{job.metadata.name}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    for container in (*objects(spec, "initContainers"), *objects(spec, "containers")):
        environment = objects(container, "env")
        if not any(each.get("name") == _INDEX_VARIABLE for each in environment):
            container["env"] = [*environment, {"name": _INDEX_VARIABLE, "valueFrom": source}]


def owner_reference(job: Job) -> JsonObject:
    """What says that a pod is the job's."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
