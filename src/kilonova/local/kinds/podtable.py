"""A pod as a row of `kubectl get pods`: what its containers say, in one word."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import age
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import NONE, age_of
from kilonova.local.kinds.walk import at, objects, part


def pod_cells(pod: JsonObject, now: datetime) -> list[Any]:
    """Name, ready, status, restarts, age; for wide output address, node and gates as well."""
    spec, status = part(pod, "spec"), part(pod, "status")
    summary = _Summary(pod).read()
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{restarts} ({age(summary.last_restart, now)} ago)"
    addresses = objects(status, "podIPs") or [{}]
    return [
        pod["metadata"].get("name", ""),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        age_of(pod, now),
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


def _cell(index: int) -> Callable[[JsonObject, datetime], Any]:
    def value(pod: JsonObject, now: datetime) -> Any:
        return pod_cells(pod, now)[index]

    return value


POD_COLUMNS = tuple(
    Column(name, "string", _cell(index), format=format, priority=priority)
    for index, (name, format, priority) in enumerate(_COLUMNS)
)


def completed_condition(pod: JsonObject) -> list[JsonObject]:
    """Marks the rows of pods that have finished."""
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = at(pod, "status", "phase")
    if phase not in messages:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


@dataclass
class _Summary:
    """Reads the statuses of init containers, then, unless one of those holds up, the others'."""

    pod: JsonObject
    reason: str = ""
    ready: int = 0
    total: int = 0
    restarts: int = 0
    last_restart: str = ""

    def read(self) -> "_Summary":
        spec, status = part(self.pod, "spec"), part(self.pod, "status")
        self.reason = status.get("reason") or status.get("phase") or ""
        # The condition outlives the gates until a scheduler has looked at the pod.
        if spec.get("schedulingGates") and not spec.get("nodeName"):
            self.reason = "SchedulingGated"
        sidecars = {
            each.get("name")
            for each in objects(spec, "initContainers")
            if each.get("restartPolicy") == "Always"
        }
        self.total = len(objects(spec, "containers")) + len(sidecars)
        initializing = self._read_init(spec, status, sidecars)
        if not initializing or _condition(status, "Initialized"):
            self._read_containers(status, sidecars)
        self._read_deletion(status)
        return self

    def _read_init(self, spec: JsonObject, status: JsonObject, sidecars: set[Any]) -> bool:
        count = len(objects(spec, "initContainers"))
        for index, container in enumerate(objects(status, "initContainerStatuses")):
            self._count_restarts(container)
            state = part(container, "state")
            terminated, waiting = state.get("terminated"), part(state, "waiting")
            if terminated and not terminated.get("exitCode"):
                continue
            if container.get("name") in sidecars and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if terminated:
                self.reason = f"Init:{_end(terminated)}"
            elif waiting.get("reason") not in (None, "", "PodInitializing"):
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{index}/{count}"
            return True
        return False

    def _read_containers(self, status: JsonObject, sidecars: set[Any]) -> None:
        self.restarts, self.last_restart = 0, ""
        for container in objects(status, "initContainerStatuses"):
            if container.get("name") in sidecars:
                self._count_restarts(container)
        running, failure = False, ""
        for container in reversed(objects(status, "containerStatuses")):
            self._count_restarts(container)
            state = part(container, "state")
            waiting, terminated = part(state, "waiting"), state.get("terminated")
            if waiting.get("reason"):
                self.reason = waiting["reason"]
            elif terminated:
                self.reason = _end(terminated)
                if terminated.get("exitCode"):
                    failure = self.reason
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and _condition(status, "Ready"):
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
        finished = at(container, "lastState", "terminated", "finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def _end(terminated: JsonObject) -> str:
    if terminated.get("reason"):
        return terminated["reason"]
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _condition(status: JsonObject, type: str) -> bool:
    for condition in objects(status, "conditions"):
        if condition.get("type") == type:
            return condition.get("status") == "True"
    return False


def _readiness_gates(spec: JsonObject, status: JsonObject) -> str:
    gates = objects(spec, "readinessGates")
    if not gates:
        return NONE
    met = sum(_condition(status, gate.get("conditionType", "")) for gate in gates)
    return f"{met}/{len(gates)}"
