"""The pod status that the kubelet writes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.local.processnode.kubelet.objects import Pod
from kilonova.local.processnode.kubelet.status.conditions import build_conditions
from kilonova.local.processnode.kubelet.status.container import (
    ObservedContainer,
    build_container_status,
)
from kilonova.local.processnode.kubelet.status.phase import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    compute_phase,
)

_MAX_MESSAGE_BYTES = 12 * 1024
"""For all containers of a pod together."""


@dataclass(frozen=True, slots=True)
class PodFailure:
    """A failure decided by the kubelet, whatever the containers do: rejected, deadline exceeded."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """The current state of a pod."""

    containers: Mapping[str, ObservedContainer]
    address: str
    host_address: str
    is_prepared: bool
    """Volumes and address are ready."""
    is_ending: bool = False
    """Its containers are being stopped, and nothing is started any more."""
    has_ended: bool = False
    """All its containers have ended."""
    failure: PodFailure | None = None


def build_pod_status(pod: Pod, observed: ObservedPod, now: datetime) -> JsonObject:
    """The whole status; fields to be removed are null."""
    statuses = {
        each.name: build_container_status(
            pod,
            each,
            observed.containers[each.name],
            is_ending=observed.is_ending or observed.has_ended,
        )
        for each in pod.all_containers
    }
    _truncate_messages(statuses)
    current_phase = _decide_phase(pod, statuses, observed)
    has_ended = current_phase in (SUCCEEDED, FAILED)
    reason, message = "", ""
    if observed.failure is not None and current_phase == FAILED:
        reason, message = observed.failure.reason, observed.failure.message
    elif current_phase == pod.status.phase:
        reason, message = pod.status.reason, pod.status.message
    prepared = observed.is_prepared and not has_ended
    moment = format_rfc3339(now)
    address = observed.address
    return {
        "phase": current_phase,
        "reason": reason or None,
        "message": message or None,
        "observedGeneration": pod.metadata.generation or None,
        "startTime": pod.status.start_time or moment,
        "hostIP": observed.host_address,
        "hostIPs": [{"ip": observed.host_address}],
        "podIP": address or None,
        "podIPs": [{"ip": address}] if address else None,
        "conditions": build_conditions(pod, statuses, current_phase, prepared=prepared, now=moment),
        "initContainerStatuses": [statuses[each.name] for each in pod.spec.init_containers] or None,
        "ephemeralContainerStatuses": [
            statuses[each.name] for each in pod.spec.ephemeral_containers
        ]
        or None,
        "containerStatuses": sorted(
            (statuses[each.name] for each in pod.spec.containers), key=lambda status: status["name"]
        ),
    }


def seconds_to_deadline(pod: Pod, now: datetime) -> float | None:
    """Seconds until activeDeadlineSeconds is exceeded; None without a deadline."""
    limit = pod.spec.active_deadline_seconds
    if limit is None or pod.status.start_time is None:
        return None
    return limit - (now - parse_time(pod.status.start_time)).total_seconds()


def _decide_phase(pod: Pod, statuses: Mapping[str, JsonObject], observed: ObservedPod) -> str:
    if pod.is_terminal:
        return pod.status.phase
    initialized = any(
        observed.containers[each.name].history.latest is not None for each in pod.spec.containers
    )
    found = compute_phase(pod, statuses, initialized=initialized, is_ended=observed.has_ended)
    if observed.has_ended and (observed.failure is not None or found in (PENDING, RUNNING)):
        return FAILED
    if not observed.has_ended and found in (SUCCEEDED, FAILED):
        # A process may still run; a terminal phase is reported only once all have ended.
        return RUNNING if pod.status.phase == RUNNING else PENDING
    return found


def _truncate_messages(statuses: Mapping[str, JsonObject]) -> None:
    most = _MAX_MESSAGE_BYTES // max(1, len(statuses))
    for status in statuses.values():
        for state in (status["state"], status["lastState"]):
            ended = state.get("terminated")
            if ended and len(ended.get("message", "").encode()) > most:
                ended["message"] = ended["message"].encode()[:most].decode(errors="ignore")
