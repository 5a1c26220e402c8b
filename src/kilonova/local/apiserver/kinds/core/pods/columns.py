"""Cells of `kubectl get pods`."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import human_age
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_value
from kilonova.local.apiserver.kinds.columns import NONE, format_age
from kilonova.local.apiserver.kinds.kind import PrinterColumn


def pod_cells(pod: JsonObject, now: datetime) -> list[Any]:
    """Name, ready, status, restarts and age; with `-o wide` also IP, node and gates."""
    spec, status = nested_object(pod, "spec"), nested_object(pod, "status")
    summary = _ContainerSummary(pod).summarize()
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{restarts} ({human_age(summary.last_restart, now)} ago)"
    addresses = nested_objects(status, "podIPs") or [{}]
    return [
        pod["metadata"].get("name", ""),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        format_age(pod, now),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


_COLUMNS = (
    ("Name", "name", 0),
    ("Ready", "", 0),
    ("Status", "", 0),
    ("Restarts", "", 0),
    ("Age", "", 0),
    ("IP", "", 1),
    ("Node", "", 1),
    ("Nominated Node", "", 1),
    ("Readiness Gates", "", 1),
)


def _cell_reader(index: int) -> Callable[[JsonObject, datetime], Any]:
    def value(pod: JsonObject, now: datetime) -> Any:
        return pod_cells(pod, now)[index]

    return value


POD_COLUMNS = tuple(
    PrinterColumn(name, "string", _cell_reader(index), format=format, priority=priority)
    for index, (name, format, priority) in enumerate(_COLUMNS)
)


def completed_condition(pod: JsonObject) -> list[JsonObject]:
    """The row condition of pods that have finished."""
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = nested_value(pod, "status", "phase")
    if phase not in messages:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


@dataclass
class _ContainerSummary:
    """Summarizes the statuses of init containers and, once these are done, of the others."""

    pod: JsonObject
    reason: str = ""
    ready: int = 0
    total: int = 0
    restarts: int = 0
    last_restart: str = ""

    def summarize(self) -> "_ContainerSummary":
        spec, status = nested_object(self.pod, "spec"), nested_object(self.pod, "status")
        self.reason = status.get("reason") or status.get("phase") or ""
        # The condition stays after the gates are removed, until a scheduler updates it.
        if spec.get("schedulingGates") and not spec.get("nodeName"):
            self.reason = "SchedulingGated"
        sidecars = {
            each.get("name")
            for each in nested_objects(spec, "initContainers")
            if each.get("restartPolicy") == "Always"
        }
        self.total = len(nested_objects(spec, "containers")) + len(sidecars)
        initializing = self._read_init(spec, status, sidecars)
        if not initializing or _has_condition(status, "Initialized"):
            self._read_containers(status, sidecars)
        self._read_deletion(status)
        return self

    def _read_init(self, spec: JsonObject, status: JsonObject, sidecars: set[Any]) -> bool:
        count = len(nested_objects(spec, "initContainers"))
        for index, container in enumerate(nested_objects(status, "initContainerStatuses")):
            self._count_restarts(container)
            state = nested_object(container, "state")
            terminated, waiting = state.get("terminated"), nested_object(state, "waiting")
            if terminated and not terminated.get("exitCode"):
                continue
            if container.get("name") in sidecars and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if terminated:
                self.reason = f"Init:{_termination_reason(terminated)}"
            elif waiting.get("reason") not in (None, "", "PodInitializing"):
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{index}/{count}"
            return True
        return False

    def _read_containers(self, status: JsonObject, sidecars: set[Any]) -> None:
        self.restarts, self.last_restart = 0, ""
        for container in nested_objects(status, "initContainerStatuses"):
            if container.get("name") in sidecars:
                self._count_restarts(container)
        running, failure = False, ""
        for container in reversed(nested_objects(status, "containerStatuses")):
            self._count_restarts(container)
            state = nested_object(container, "state")
            waiting, terminated = nested_object(state, "waiting"), state.get("terminated")
            if waiting.get("reason"):
                self.reason = waiting["reason"]
            elif terminated:
                self.reason = _termination_reason(terminated)
                if terminated.get("exitCode"):
                    failure = self.reason
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and _has_condition(status, "Ready"):
                self.reason = "Running"
            elif failure:
                self.reason = failure
            elif running:
                self.reason = "NotReady"

    def _read_deletion(self, status: JsonObject) -> None:
        if not self.pod["metadata"].get("deletionTimestamp"):
            return
        if status.get("reason") == "NodeLost":
            self.reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            self.reason = "Terminating"

    def _count_restarts(self, container: JsonObject) -> None:
        self.restarts += container.get("restartCount") or 0
        finished = nested_value(container, "lastState", "terminated", "finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def _termination_reason(terminated: JsonObject) -> str:
    if terminated.get("reason"):
        return terminated["reason"]
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _has_condition(status: JsonObject, type: str) -> bool:
    for condition in nested_objects(status, "conditions"):
        if condition.get("type") == type:
            return condition.get("status") == "True"
    return False


def _readiness_gates(spec: JsonObject, status: JsonObject) -> str:
    gates = nested_objects(spec, "readinessGates")
    if not gates:
        return NONE
    ready = sum(_has_condition(status, gate.get("conditionType", "")) for gate in gates)
    return f"{ready}/{len(gates)}"
