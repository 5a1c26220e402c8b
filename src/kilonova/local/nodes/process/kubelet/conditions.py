"""The conditions of a pod that the kubelet answers for. Pure."""

import json
from collections.abc import Mapping, Sequence

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import at
from kilonova.local.nodes.process.kubelet.phase import FAILED, SUCCEEDED
from kilonova.local.nodes.process.kubelet.pods import Pod, is_sidecar

OWNED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def conditions(
    pod: Pod, said: Mapping[str, JsonObject], phase: str, *, prepared: bool, now: str
) -> list[JsonObject]:
    """All conditions of the kubelet, in its order. `prepared`: volumes and address are there."""
    containers = _containers_ready(pod, said, phase)
    found = {
        "PodReadyToStartContainers": (prepared, "", ""),
        "Initialized": _initialized(pod, said, phase),
        "Ready": _ready(pod, containers),
        "ContainersReady": containers,
        "PodScheduled": (True, "", ""),
    }
    before = {each.get("type"): each for each in pod.status.conditions}
    return [_condition(pod, kind, *found[kind], before.get(kind) or {}, now) for kind in OWNED]


def _condition(
    pod: Pod, kind: str, holds: bool, reason: str, message: str, before: JsonObject, now: str
) -> JsonObject:
    status = "True" if holds else "False"
    same = before.get("status") == status
    # A condition is merged into the one that there is: what is no longer so is said with null.
    return {
        "type": kind,
        "status": status,
        "reason": reason or None,
        "message": message or None,
        "observedGeneration": pod.metadata.generation or None,
        "lastProbeTime": None,
        "lastTransitionTime": before["lastTransitionTime"] if same else now,
    }


_Answer = tuple[bool, str, str]


def _containers_ready(pod: Pod, said: Mapping[str, JsonObject], phase: str) -> _Answer:
    if phase == SUCCEEDED:
        return False, "PodCompleted", ""
    if phase == FAILED:
        return False, "PodFailed", ""
    names = [each.name for each in pod.spec.init_containers if is_sidecar(each)]
    names += [each.name for each in pod.spec.containers]
    unready = [name for name in names if not said[name]["ready"]]
    if unready:
        return False, "ContainersNotReady", f"containers with unready status: {_listed(unready)}"
    return True, "", ""


def _ready(pod: Pod, containers: _Answer) -> _Answer:
    if not containers[0]:
        return containers
    known = {each.get("type"): each.get("status") for each in pod.status.conditions}
    missing: list[str] = []
    for gate in pod.spec.readiness_gates:
        kind = json.dumps(gate.condition_type)
        if gate.condition_type not in known:
            missing.append(f"corresponding condition of pod readiness gate {kind} does not exist.")
        elif known[gate.condition_type] != "True":
            status = known[gate.condition_type]
            missing.append(f'the status of pod readiness gate {kind} is not "True", but {status}')
    if missing:
        return False, "ReadinessGatesNotReady", ", ".join(missing)
    return True, "", ""


def _initialized(pod: Pod, said: Mapping[str, JsonObject], phase: str) -> _Answer:
    if phase == SUCCEEDED:
        return True, "PodCompleted", ""
    if any(_has_started(said[each.name]) for each in pod.spec.containers):
        return True, "", ""
    incomplete = [
        each.name
        for each in pod.spec.init_containers
        if not said[each.name]["started" if is_sidecar(each) else "ready"]
    ]
    if incomplete:
        text = f"containers with incomplete status: {_listed(incomplete)}"
        return False, "ContainersNotInitialized", text
    return True, "", ""


def _has_started(said: JsonObject) -> bool:
    running = at(said, "state", "running") is not None
    ended = at(said, "state", "terminated") or at(said, "lastState", "terminated")
    return running or bool(ended)


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"
