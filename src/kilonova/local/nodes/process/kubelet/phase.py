"""The phase of a pod, from what is said of its containers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import at
from kilonova.local.nodes.process.kubelet.pods import Container, Pod, is_sidecar
from kilonova.local.nodes.process.kubelet.restarts import restarts_after

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


def phase(pod: Pod, said: Mapping[str, JsonObject], *, initialized: bool, over: bool) -> str:
    """`initialized`: a regular container has run. `over`: nothing is started any more."""
    count = _Count(pod)
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            count.sidecar(said[container.name])
        else:
            count.init(container, said[container.name])
    for container in pod.spec.containers:
        count.regular(container, said[container.name])
    return count.phase(initialized=initialized, over=over)


@dataclass(slots=True)
class _Count:
    pod: Pod
    failed_init: int = 0
    pending_init: int = 0
    pending_sidecars: int = 0
    running: int = 0
    waiting: int = 0
    stopped: int = 0
    for_good: int = 0
    succeeded: int = 0

    def init(self, container: Container, said: JsonObject) -> None:
        code = _exit_code(said)
        if at(said, "state", "running") is not None or code is None:
            self.pending_init += 1
        elif code and not restarts_after(self.pod, container, code):
            self.failed_init += 1

    def sidecar(self, said: JsonObject) -> None:
        if at(said, "state", "running") is not None:
            self.running += 1
            self.pending_sidecars += not said.get("started")
        elif _exit_code(said) is None:
            self.pending_sidecars += 1
            self.waiting += 1

    def regular(self, container: Container, said: JsonObject) -> None:
        if at(said, "state", "running") is not None:
            self.running += 1
            return
        code = _exit_code(said)
        if code is None:
            self.waiting += 1
            return
        self.stopped += 1
        self.for_good += not restarts_after(self.pod, container, code)
        self.succeeded += at(said, "state", "terminated", "exitCode") == 0

    def phase(self, *, initialized: bool, over: bool) -> str:
        if self.failed_init:
            return FAILED
        initializing = self.pending_init or (self.pending_sidecars and not initialized)
        if initializing or self.waiting:
            return PENDING
        if self.running:
            return RUNNING
        if not self.stopped:
            return PENDING
        if not over and self.stopped != self.for_good:
            return RUNNING
        return SUCCEEDED if self.stopped == self.succeeded else FAILED


def _exit_code(said: JsonObject) -> int | None:
    """How it ended, now or before it began to wait; None if it never ended."""
    now = at(said, "state", "terminated", "exitCode")
    if now is not None:
        return now
    if at(said, "state", "waiting") is not None:
        return at(said, "lastState", "terminated", "exitCode")
    return None
