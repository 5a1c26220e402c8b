"""The pod conditions that the kubelet owns. Pure."""

import json
from collections.abc import Mapping, Sequence

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_value
from kilonova.local.processnode.kubelet.objects import Pod, is_sidecar
from kilonova.local.processnode.kubelet.status.phase import FAILED, SUCCEEDED

KUBELET_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)


def build_conditions(
    pod: Pod, statuses: Mapping[str, JsonObject], phase: str, *, prepared: bool, now: str
) -> list[JsonObject]:
    """All conditions of the kubelet, in its order. `prepared`: volumes and address are ready."""
    containers = _compute_containers_ready(pod, statuses, phase)
    found = {
        "PodReadyToStartContainers": (prepared, "", ""),
        "Initialized": _compute_initialized(pod, statuses, phase),
        "Ready": _compute_ready(pod, containers),
        "ContainersReady": containers,
        "PodScheduled": (True, "", ""),
    }
    before = {each.get("type"): each for each in pod.status.conditions}
    return [
        _build_condition(pod, kind, *found[kind], before.get(kind) or {}, now)
        for kind in KUBELET_CONDITIONS
    ]


def _build_condition(
    pod: Pod, kind: str, holds: bool, reason: str, message: str, before: JsonObject, now: str
) -> JsonObject:
    status = "True" if holds else "False"
    same = before.get("status") == status
    # Conditions are merged into the existing ones: a field that no longer applies is set to null.
    return {
        "type": kind,
        "status": status,
        "reason": reason or None,
        "message": message or None,
        "observedGeneration": pod.metadata.generation or None,
        "lastProbeTime": None,
        "lastTransitionTime": before["lastTransitionTime"] if same else now,
    }


_ConditionState = tuple[bool, str, str]


def _compute_containers_ready(
    pod: Pod, statuses: Mapping[str, JsonObject], phase: str
) -> _ConditionState:
    if phase == SUCCEEDED:
        return False, "PodCompleted", ""
    if phase == FAILED:
        return False, "PodFailed", ""
    names = [each.name for each in pod.spec.init_containers if is_sidecar(each)]
    names += [each.name for each in pod.spec.containers]
    unready = [name for name in names if not statuses[name]["ready"]]
    if unready:
        return (
            False,
            "ContainersNotReady",
            f"containers with unready status: {_format_names(unready)}",
        )
    return True, "", ""


def _compute_ready(pod: Pod, containers: _ConditionState) -> _ConditionState:
    if not containers[0]:
        return containers
    reported = {each.get("type"): each.get("status") for each in pod.status.conditions}
    missing: list[str] = []
    for gate in pod.spec.readiness_gates:
        kind = json.dumps(gate.condition_type)
        if gate.condition_type not in reported:
            missing.append(f"corresponding condition of pod readiness gate {kind} does not exist.")
        elif reported[gate.condition_type] != "True":
            status = reported[gate.condition_type]
            missing.append(f'the status of pod readiness gate {kind} is not "True", but {status}')
    if missing:
        return False, "ReadinessGatesNotReady", ", ".join(missing)
    return True, "", ""


def _compute_initialized(
    pod: Pod, statuses: Mapping[str, JsonObject], phase: str
) -> _ConditionState:
    if phase == SUCCEEDED:
        return True, "PodCompleted", ""
    if any(_has_started(statuses[each.name]) for each in pod.spec.containers):
        return True, "", ""
    incomplete = [
        each.name
        for each in pod.spec.init_containers
        if not statuses[each.name]["started" if is_sidecar(each) else "ready"]
    ]
    if incomplete:
        text = f"containers with incomplete status: {_format_names(incomplete)}"
        return False, "ContainersNotInitialized", text
    return True, "", ""


def _has_started(status: JsonObject) -> bool:
    running = nested_value(status, "state", "running") is not None
    ended = nested_value(status, "state", "terminated") or nested_value(
        status, "lastState", "terminated"
    )
    return running or bool(ended)


def _format_names(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"
