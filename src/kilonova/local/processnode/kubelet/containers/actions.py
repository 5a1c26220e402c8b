"""Which containers of a pod to start and stop now. Pure.

Init containers run one after the other; a sidecar counts as complete once it has started, and is
kept running from then on. The other containers then start together. When none of them runs or will
run again, the pod is finished and its sidecars are stopped.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from kilonova.local.processnode.kubelet.containers.restart_policy import (
    should_restart,
    should_restart_after_failed_probe,
)
from kilonova.local.processnode.kubelet.containers.runs import ContainerRun, RunHistory
from kilonova.local.processnode.kubelet.objects import Container, Pod, is_sidecar


@dataclass(frozen=True, slots=True)
class ProbeHealth:
    """Probe results of a container's current run. `has_started` is None until it is known."""

    has_started: bool | None = True
    is_alive: bool = True
    is_ready: bool = True


DEFAULT_HEALTH = ProbeHealth()
"""The health of a container without probes."""


class TerminationCause(Enum):
    """Why a container is stopped: its grace period depends on it."""

    STARTUP_PROBE = "startup probe"
    LIVENESS_PROBE = "liveness probe"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ContainerStop:
    """A container to stop while the pod goes on."""

    name: str
    message: str
    cause: TerminationCause
    restart: bool


@dataclass(frozen=True, slots=True)
class PodActions:
    """The next actions. `is_finished`: nothing will run any more, stop what still runs."""

    start: tuple[str, ...] = ()
    stop: tuple[ContainerStop, ...] = ()
    is_finished: bool = False


def compute_pod_actions(
    pod: Pod,
    histories: Mapping[str, RunHistory],
    health: Mapping[str, ProbeHealth],
    restarting: Collection[str] = (),
) -> PodActions:
    """The next actions for a pod that should run. `restarting` containers restart with any exit
    code.

    Ephemeral containers run once, independently of the others.
    """
    extra = [each.name for each in pod.spec.ephemeral_containers]
    extra = [name for name in extra if histories[name].latest is None]
    init = _InitContainerActions(pod, histories, health)
    if not init.compute():
        return PodActions((*init.start, *extra), tuple(init.stop), init.failed)
    start: list[str] = []
    stop: list[ContainerStop] = []
    remaining = 0
    for container in pod.spec.containers:
        run = histories[container.name].latest
        if run is None or not run.is_running:
            if run is None or _should_start_again(pod, container, run, restarting):
                start.append(container.name)
            continue
        failed = _find_failed_probe(container, health[container.name], "Container")
        if failed is None:
            remaining += 1
            continue
        restart = should_restart_after_failed_probe(pod, container)
        stop.append(_add_restart_note(failed, restart))
        remaining += restart
    if not remaining and not start:
        return PodActions(stop=tuple(stop), is_finished=True)
    return PodActions((*init.start, *start, *extra), (*init.stop, *stop))


def _should_start_again(
    pod: Pod, container: Container, run: ContainerRun, restarting: Collection[str]
) -> bool:
    return container.name in restarting or should_restart(pod, container, run.exit_code)


class _InitContainerActions:
    """The progress of initialization, and which sidecars need to be started or stopped."""

    def __init__(
        self, pod: Pod, histories: Mapping[str, RunHistory], health: Mapping[str, ProbeHealth]
    ) -> None:
        self._pod = pod
        self._histories = histories
        self._health = health
        self.start: list[str] = []
        self.stop: list[ContainerStop] = []
        self.failed = False

    def compute(self) -> bool:
        """Fill `start` and `stop`; returns whether the other containers may run."""
        containers = self._pod.spec.init_containers
        begun = [self._histories[each.name].latest is not None for each in containers]
        if any(self._histories[each.name].latest for each in self._pod.spec.containers):
            front = len(containers)
        elif any(begun):
            front = len(begun) - 1 - begun[::-1].index(True)
        else:
            front = -1
        for container in containers[: max(front, 0)]:
            if is_sidecar(container):
                self._keep_sidecar(container)
        if front == len(containers):
            return True
        if front >= 0 and not self._is_done(containers[front]):
            return False
        if front + 1 == len(containers):
            return True
        self.start.append(containers[front + 1].name)
        return False

    def _keep_sidecar(self, sidecar: Container) -> bool:
        """Keep a sidecar running; returns whether it runs and has started."""
        run = self._histories[sidecar.name].latest
        if run is None or not run.is_running:
            self.start.append(sidecar.name)
            return False
        failed = _find_failed_probe(sidecar, self._health[sidecar.name], "Init container")
        if failed is not None:
            self.stop.append(failed)
        return self._health[sidecar.name].has_started is True

    def _is_done(self, container: Container) -> bool:
        if is_sidecar(container):
            return self._keep_sidecar(container)
        run = self._histories[container.name].latest
        if run is None or run.is_running:
            return False
        if run.succeeded:
            return True
        if should_restart(self._pod, container, run.exit_code):
            self.start.append(container.name)
        else:
            self.failed = True
        return False


def _find_failed_probe(
    container: Container, health: ProbeHealth, what: str
) -> ContainerStop | None:
    if not health.is_alive:
        probe, cause = "liveness", TerminationCause.LIVENESS_PROBE
    elif health.has_started is False:
        probe, cause = "startup", TerminationCause.STARTUP_PROBE
    else:
        return None
    return ContainerStop(
        container.name, f"{what} {container.name} failed {probe} probe", cause, True
    )


def _add_restart_note(stop: ContainerStop, restart: bool) -> ContainerStop:
    message = f"{stop.message}, will be restarted" if restart else stop.message
    return ContainerStop(stop.name, message, stop.cause, restart)


def compute_termination_order(pod: Pod, running: Collection[str]) -> dict[str, frozenset[str]]:
    """Which containers each container waits for when the pod ends: sidecars stop last, in
    reverse."""
    main = frozenset(each.name for each in pod.spec.containers if each.name in running)
    awaited: dict[str, frozenset[str]] = {name: frozenset() for name in running}
    later = main
    for container in reversed(pod.spec.init_containers):
        if is_sidecar(container) and container.name in running:
            awaited[container.name] = later
            later = later | {container.name}
    return awaited
