"""Pods as rows. Pure."""

import re
from functools import lru_cache

from kilonova.api.gpus import Assignment, Unreadable, read_devices
from kilonova.api.grove.names import OPERATOR
from kilonova.api.scheduling import DEFAULT_QUEUE
from kilonova.console.amounts import asked_for
from kilonova.console.noderows import GPU
from kilonova.console.objects import ContainerStatus, Pod, PodLabels
from kilonova.console.podstate import condition_of, is_true, pod_state, why
from kilonova.console.rows import ENDED, PodRow, moment

_COMPUTE_SLICES = 7
_CALLED = re.compile(r"[A-Za-z][A-Za-z0-9]*/[A-Za-z0-9][A-Za-z0-9.:_-]*", re.ASCII)
"""How kinds and objects can be called."""


def pod_row(pod: Pod) -> PodRow:
    """A pod as it is shown."""
    metadata, status = pod.metadata, pod.status
    labels = metadata.labels
    reason, message = why(pod)
    ready = is_true(status.conditions, "Ready")
    containers = status.container_statuses
    return PodRow(
        id=metadata.id,
        node=pod.spec.node_name,
        phase=status.phase,
        state=pod_state(pod),
        ready=ready,
        reason=reason,
        message=message,
        gang=f"{metadata.namespace}/{labels.gang}" if labels.gang else "",
        set=set_of(labels, metadata.namespace),
        clique=_clique(pod),
        workload=workload_of(pod),
        queue=queue_of(labels),
        scheduler=pod.spec.scheduler_name,
        gpus=int(asked_for(pod.spec, GPU)),
        devices=_devices(metadata.annotations.devices),
        cpu=asked_for(pod.spec, "cpu"),
        ram=int(asked_for(pod.spec, "memory")),
        restarts=sum(each.restart_count for each in containers),
        created=moment(metadata.creation_timestamp),
        scheduled=_since(pod, "PodScheduled"),
        started=min(filter(None, map(_started, containers)), default=None),
        ready_at=_since(pod, "Ready"),
        finished=max(filter(None, map(_finished, containers)), default=None)
        if status.phase in ENDED
        else None,
    )


def set_of(labels: PodLabels, namespace: str) -> str:
    """The id of the set to which labels of the operator assign an object; empty if none do."""
    mine = labels.managed_by == OPERATOR and labels.part_of
    return f"{namespace}/{labels.part_of}" if mine else ""


def queue_of(labels: PodLabels) -> str:
    """The queue that labels name; empty for the usual one."""
    named = labels.queue or labels.kai_queue
    return "" if named == DEFAULT_QUEUE else named


def _clique(pod: Pod) -> str:
    # The owner's name is whole; a label holds no more than 63 characters of it.
    owner = pod.metadata.controller
    name = owner.name if owner is not None and owner.kind == "PodClique" else ""
    name = name or pod.metadata.labels.clique
    return f"{pod.metadata.namespace}/{name}" if name else ""


def workload_of(pod: Pod) -> str:
    """Whom a pod belongs to in people's eyes: `Kind/namespace/name`."""
    metadata, labels = pod.metadata, pod.metadata.labels
    if of_set := set_of(labels, metadata.namespace):
        return f"PodCliqueSet/{of_set}"
    owner = metadata.controller
    # Whoever writes a reference may write anything: what nothing is called belongs to nobody.
    if owner is None or not _CALLED.fullmatch(f"{owner.kind}/{owner.name}"):
        return f"Pod/{metadata.id}"
    made_by = f"-{labels.template_hash}"
    if owner.kind == "ReplicaSet" and labels.template_hash and owner.name.endswith(made_by):
        return f"Deployment/{metadata.namespace}/{owner.name.removesuffix(made_by)}"
    return f"{owner.kind}/{metadata.namespace}/{owner.name}"


@lru_cache(maxsize=4096)
def _devices(text: str) -> tuple[tuple[int, float], ...]:
    found = read_devices(text) if text else ()
    return (
        () if isinstance(found, Unreadable) else tuple((each.index, _share(each)) for each in found)
    )


def _share(given: Assignment) -> float:
    """Part of a device: of a MIG instance, the compute slices that its profile begins with."""
    if not given.profile:
        return given.milli / 1000
    return round(min(1.0, int(given.profile.partition("g")[0]) / _COMPUTE_SLICES), 3)


def _since(pod: Pod, condition: str) -> float | None:
    found = condition_of(pod.status.conditions, condition)
    holds = found is not None and found.status == "True"
    return moment(found.last_transition_time) if found is not None and holds else None


def _started(container: ContainerStatus) -> float | None:
    state = container.state
    if state.running is not None:
        return moment(state.running.started_at)
    return moment(state.terminated.started_at) if state.terminated is not None else None


def _finished(container: ContainerStatus) -> float | None:
    ended = container.state.terminated
    return moment(ended.finished_at) if ended is not None else None
