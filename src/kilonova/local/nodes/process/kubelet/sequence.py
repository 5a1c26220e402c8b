"""What is to be started and stopped in a pod now: its containers' order of life. Pure.

Init containers run one after the other; a sidecar counts as done when it has started, and is
kept running from then on. The other containers follow together. When none of them runs or will
run again, the pod is over, and its sidecars end.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from kilonova.local.nodes.process.kubelet.pods import Container, Pod, is_sidecar
from kilonova.local.nodes.process.kubelet.restarts import (
    restarts_after,
    restarts_after_failed_probe,
)
from kilonova.local.nodes.process.kubelet.runs import History, Run


@dataclass(frozen=True, slots=True)
class Health:
    """What probes say of a container's present run. `startup` is None until it is known."""

    startup: bool | None = True
    alive: bool = True
    ready: bool = True


HEALTHY = Health()
"""Of a container without probes."""


class StopCause(Enum):
    """Why one container is stopped: the grace of its end depends on it."""

    STARTUP_PROBE = "startup probe"
    LIVENESS_PROBE = "liveness probe"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Stop:
    """A container to stop, for itself."""

    name: str
    message: str
    cause: StopCause
    restart: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now. `over`: nothing will run any more, end what is left."""

    start: tuple[str, ...] = ()
    stop: tuple[Stop, ...] = ()
    over: bool = False


def plan(
    pod: Pod,
    histories: Mapping[str, History],
    health: Mapping[str, Health],
    restarting: Collection[str] = (),
) -> Plan:
    """The next steps of a pod that is to run. `restarting` start again, however they ended.

    Ephemeral containers run once, whatever the others do.
    """
    extra = [each.name for each in pod.spec.ephemeral_containers]
    extra = [name for name in extra if histories[name].latest is None]
    init = _InitPlan(pod, histories, health)
    if not init.decide():
        return Plan((*init.start, *extra), tuple(init.stop), init.failed)
    start: list[str] = []
    stop: list[Stop] = []
    kept = 0
    for container in pod.spec.containers:
        run = histories[container.name].latest
        if run is None or not run.is_running:
            if run is None or _starts_again(pod, container, run, restarting):
                start.append(container.name)
            continue
        failed = _failed_probe(container, health[container.name], "Container")
        if failed is None:
            kept += 1
            continue
        restart = restarts_after_failed_probe(pod, container)
        stop.append(_with_outlook(failed, restart))
        kept += restart
    if not kept and not start:
        return Plan(stop=tuple(stop), over=True)
    return Plan((*init.start, *start, *extra), (*init.stop, *stop))


def _starts_again(pod: Pod, container: Container, run: Run, restarting: Collection[str]) -> bool:
    return container.name in restarting or restarts_after(pod, container, run.exit_code)


class _InitPlan:
    """How far initialization is, and which sidecars need something."""

    def __init__(
        self, pod: Pod, histories: Mapping[str, History], health: Mapping[str, Health]
    ) -> None:
        self._pod = pod
        self._histories = histories
        self._health = health
        self.start: list[str] = []
        self.stop: list[Stop] = []
        self.failed = False

    def decide(self) -> bool:
        """Fill `start` and `stop`; whether the other containers may run."""
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
                self._keep(container)
        if front == len(containers):
            return True
        if front >= 0 and not self._is_done(containers[front]):
            return False
        if front + 1 == len(containers):
            return True
        self.start.append(containers[front + 1].name)
        return False

    def _keep(self, sidecar: Container) -> bool:
        """See that a sidecar runs; whether it does, and has started."""
        run = self._histories[sidecar.name].latest
        if run is None or not run.is_running:
            self.start.append(sidecar.name)
            return False
        failed = _failed_probe(sidecar, self._health[sidecar.name], "Init container")
        if failed is not None:
            self.stop.append(failed)
        return self._health[sidecar.name].startup is True

    def _is_done(self, container: Container) -> bool:
        if is_sidecar(container):
            return self._keep(container)
        run = self._histories[container.name].latest
        if run is None or run.is_running:
            return False
        if run.succeeded:
            return True
        if restarts_after(self._pod, container, run.exit_code):
            self.start.append(container.name)
        else:
            self.failed = True
        return False


def _failed_probe(container: Container, health: Health, what: str) -> Stop | None:
    if not health.alive:
        probe, cause = "liveness", StopCause.LIVENESS_PROBE
    elif health.startup is False:
        probe, cause = "startup", StopCause.STARTUP_PROBE
    else:
        return None
    return Stop(container.name, f"{what} {container.name} failed {probe} probe", cause, True)


def _with_outlook(stop: Stop, restart: bool) -> Stop:
    message = f"{stop.message}, will be restarted" if restart else stop.message
    return Stop(stop.name, message, stop.cause, restart)


def turns(pod: Pod, running: Collection[str]) -> dict[str, frozenset[str]]:
    """Whose end each container awaits when the pod ends: sidecars go last, in reverse order."""
    main = frozenset(each.name for each in pod.spec.containers if each.name in running)
    awaited: dict[str, frozenset[str]] = {name: frozenset() for name in running}
    later = main
    for container in reversed(pod.spec.init_containers):
        if is_sidecar(container) and container.name in running:
            awaited[container.name] = later
            later = later | {container.name}
    return awaited
