"""The status of a pod, as the kubelet writes it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time, rfc3339
from kilonova.local.nodes.process.kubelet.conditions import conditions
from kilonova.local.nodes.process.kubelet.containerstatus import Seen, container_status
from kilonova.local.nodes.process.kubelet.phase import FAILED, PENDING, RUNNING, SUCCEEDED, phase
from kilonova.local.nodes.process.kubelet.pods import Pod

_MESSAGE_BYTES = 12 * 1024
"""Of all containers of a pod together."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end that was decided for a pod, whatever its containers do: rejected, too old."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Situation:
    """A pod as it is now."""

    containers: Mapping[str, Seen]
    address: str
    host_address: str
    prepared: bool
    """Volumes and address are there."""
    ending: bool = False
    """Its containers are being ended, and nothing is started any more."""
    ended: bool = False
    """They have all ended."""
    verdict: Verdict | None = None


def pod_status(pod: Pod, now_is: Situation, now: datetime) -> JsonObject:
    """The whole status; fields that are to go are null."""
    said = {
        each.name: container_status(
            pod, each, now_is.containers[each.name], ending=now_is.ending or now_is.ended
        )
        for each in pod.all_containers
    }
    _shorten(said)
    present = _phase(pod, said, now_is)
    has_ended = present in (SUCCEEDED, FAILED)
    reason, message = "", ""
    if now_is.verdict is not None and present == FAILED:
        reason, message = now_is.verdict.reason, now_is.verdict.message
    elif present == pod.status.phase:
        reason, message = pod.status.reason, pod.status.message
    prepared = now_is.prepared and not has_ended
    moment = rfc3339(now)
    address = now_is.address
    return {
        "phase": present,
        "reason": reason or None,
        "message": message or None,
        "observedGeneration": pod.metadata.generation or None,
        "startTime": pod.status.start_time or moment,
        "hostIP": now_is.host_address,
        "hostIPs": [{"ip": now_is.host_address}],
        "podIP": address or None,
        "podIPs": [{"ip": address}] if address else None,
        "conditions": conditions(pod, said, present, prepared=prepared, now=moment),
        "initContainerStatuses": [said[each.name] for each in pod.spec.init_containers] or None,
        "ephemeralContainerStatuses": [said[each.name] for each in pod.spec.ephemeral_containers]
        or None,
        "containerStatuses": sorted(
            (said[each.name] for each in pod.spec.containers), key=lambda status: status["name"]
        ),
    }


def deadline_left(pod: Pod, now: datetime) -> float | None:
    """Seconds until the pod has been active for too long; None where that is no matter."""
    limit = pod.spec.active_deadline_seconds
    if limit is None or pod.status.start_time is None:
        return None
    return limit - (now - parse_time(pod.status.start_time)).total_seconds()


def _phase(pod: Pod, said: Mapping[str, JsonObject], now_is: Situation) -> str:
    if pod.has_ended:
        return pod.status.phase
    initialized = any(
        now_is.containers[each.name].history.latest is not None for each in pod.spec.containers
    )
    found = phase(pod, said, initialized=initialized, over=now_is.ended)
    if now_is.ended and (now_is.verdict is not None or found in (PENDING, RUNNING)):
        return FAILED
    if not now_is.ended and found in (SUCCEEDED, FAILED):
        # Something of it may still run; the end is told when it has come.
        return RUNNING if pod.status.phase == RUNNING else PENDING
    return found


def _shorten(said: Mapping[str, JsonObject]) -> None:
    most = _MESSAGE_BYTES // max(1, len(said))
    for status in said.values():
        for state in (status["state"], status["lastState"]):
            ended = state.get("terminated")
            if ended and len(ended.get("message", "").encode()) > most:
                ended["message"] = ended["message"].encode()[:most].decode(errors="ignore")
