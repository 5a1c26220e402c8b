"""The phase of a pod, from its container statuses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_value
from kilonova.local.processnode.kubelet.containers.restart_policy import should_restart
from kilonova.local.processnode.kubelet.objects import Container, Pod, is_sidecar

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


def compute_phase(
    pod: Pod, statuses: Mapping[str, JsonObject], *, initialized: bool, is_ended: bool
) -> str:
    """`initialized`: a regular container has run. `is_ended`: nothing is started any more."""
    count = _PhaseCounts(pod)
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            count.count_sidecar(statuses[container.name])
        else:
            count.count_init(container, statuses[container.name])
    for container in pod.spec.containers:
        count.count_container(container, statuses[container.name])
    return count.compute(initialized=initialized, is_ended=is_ended)


@dataclass(slots=True)
class _PhaseCounts:
    pod: Pod
    failed_init: int = 0
    pending_init: int = 0
    pending_sidecars: int = 0
    running: int = 0
    waiting: int = 0
    stopped: int = 0
    stopped_permanently: int = 0
    succeeded: int = 0

    def count_init(self, container: Container, status: JsonObject) -> None:
        code = _exit_code(status)
        if nested_value(status, "state", "running") is not None or code is None:
            self.pending_init += 1
        elif code and not should_restart(self.pod, container, code):
            self.failed_init += 1

    def count_sidecar(self, status: JsonObject) -> None:
        if nested_value(status, "state", "running") is not None:
            self.running += 1
            self.pending_sidecars += not status.get("started")
        elif _exit_code(status) is None:
            self.pending_sidecars += 1
            self.waiting += 1

    def count_container(self, container: Container, status: JsonObject) -> None:
        if nested_value(status, "state", "running") is not None:
            self.running += 1
            return
        code = _exit_code(status)
        if code is None:
            self.waiting += 1
            return
        self.stopped += 1
        self.stopped_permanently += not should_restart(self.pod, container, code)
        self.succeeded += nested_value(status, "state", "terminated", "exitCode") == 0

    def compute(self, *, initialized: bool, is_ended: bool) -> str:
        if self.failed_init:
            return FAILED
        initializing = self.pending_init or (self.pending_sidecars and not initialized)
        if initializing or self.waiting:
            return PENDING
        if self.running:
            return RUNNING
        if not self.stopped:
            return PENDING
        if not is_ended and self.stopped != self.stopped_permanently:
            return RUNNING
        return SUCCEEDED if self.stopped == self.succeeded else FAILED


def _exit_code(status: JsonObject) -> int | None:
    """Its last exit code, also while it waits for a restart; None if it never ended."""
    now = nested_value(status, "state", "terminated", "exitCode")
    if now is not None:
        return now
    if nested_value(status, "state", "waiting") is not None:
        return nested_value(status, "lastState", "terminated", "exitCode")
    return None
