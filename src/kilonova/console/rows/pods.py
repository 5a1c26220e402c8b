"""Pods as rows. Pure."""

from functools import lru_cache

from kilonova.api.gpu.annotations import DeviceAssignment, InvalidAnnotation, parse_devices
from kilonova.api.group_kinds import GroupKind
from kilonova.api.pods.workload_owner import CLIQUE
from kilonova.api.scheduling import DEFAULT_QUEUE
from kilonova.catalog.resource_names import GPU
from kilonova.component.console.values import parse_timestamp
from kilonova.console.objects import ContainerStatus, Pod, PodLabels
from kilonova.console.rows.model import TERMINAL_PHASES, PodRow
from kilonova.console.rows.ownership import pod_workload_id, podcliqueset_id
from kilonova.console.rows.pod_state import pod_reason, pod_state
from kilonova.console.rows.quantities import effective_requests
from kilonova.kube.status import find_condition, is_condition_true

_COMPUTE_SLICES = 7


def pod_row(pod: Pod) -> PodRow:
    """The row of a pod."""
    metadata, status = pod.metadata, pod.status
    labels = metadata.labels
    reason, message = pod_reason(pod)
    ready = is_condition_true(status.conditions, "Ready")
    containers = status.container_statuses
    requests = effective_requests(pod.spec)
    devices = _parse_devices(metadata.annotations.devices)
    return PodRow(
        id=metadata.id,
        node=pod.spec.node_name,
        phase=status.phase,
        state=pod_state(pod),
        ready=ready,
        reason=reason,
        message=message,
        gang=f"{metadata.namespace}/{labels.gang}" if labels.gang else "",
        set=podcliqueset_id(labels, metadata.namespace),
        clique=_clique_id(pod),
        workload=pod_workload_id(pod),
        queue=queue_name(labels),
        scheduler=pod.spec.scheduler_name,
        gpus=int(requests.get(GPU, 0.0)),
        devices=tuple((each.index, _device_share(each)) for each in devices),
        mig_instances=tuple(
            (each.index, each.profile, each.start) for each in devices if each.profile
        ),
        cpu=requests.get("cpu", 0.0),
        memory=int(requests.get("memory", 0.0)),
        restarts=sum(each.restart_count for each in containers),
        created=parse_timestamp(metadata.creation_timestamp),
        scheduled=_condition_since(pod, "PodScheduled"),
        started=min(filter(None, map(_started_at, containers)), default=None),
        ready_at=_condition_since(pod, "Ready"),
        finished=max(filter(None, map(_finished_at, containers)), default=None)
        if status.phase in TERMINAL_PHASES
        else None,
    )


def queue_name(labels: PodLabels) -> str:
    """The queue named by labels; empty for the default queue."""
    named = labels.queue or labels.kai_queue
    return "" if named == DEFAULT_QUEUE else named


def _clique_id(pod: Pod) -> str:
    # The label may be truncated to 63 characters, the owner reference is not.
    owner = pod.metadata.controller
    kind = None if owner is None else GroupKind.from_api_version(owner.api_version, owner.kind)
    name = owner.name if owner is not None and kind == CLIQUE else ""
    name = name or pod.metadata.labels.clique
    return f"{pod.metadata.namespace}/{name}" if name else ""


@lru_cache(maxsize=4096)
def _parse_devices(text: str) -> tuple[DeviceAssignment, ...]:
    found = parse_devices(text) if text else ()
    return () if isinstance(found, InvalidAnnotation) else found


def _device_share(assignment: DeviceAssignment) -> float:
    """Share of a device, of compute capacity or memory the larger; of a MIG instance, its compute
    slices, which start the profile's name."""
    if not assignment.profile:
        return max(assignment.milli, assignment.memory_milli) / 1000
    return round(min(1.0, int(assignment.profile.partition("g")[0]) / _COMPUTE_SLICES), 3)


def _condition_since(pod: Pod, condition: str) -> float | None:
    found = find_condition(pod.status.conditions, condition)
    is_true = found is not None and found.status == "True"
    return parse_timestamp(found.last_transition_time) if found is not None and is_true else None


def _started_at(container: ContainerStatus) -> float | None:
    state = container.state
    if state.running is not None:
        return parse_timestamp(state.running.started_at)
    return parse_timestamp(state.terminated.started_at) if state.terminated is not None else None


def _finished_at(container: ContainerStatus) -> float | None:
    ended = container.state.terminated
    return parse_timestamp(ended.finished_at) if ended is not None else None
