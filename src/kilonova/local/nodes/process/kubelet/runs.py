"""The runs of a container: each attempt to run it, and what the kubelet remembers of them.

The runtime keeps the last two runs of each container; a run that never came about, or that the
runtime lost, is known from the pod's status. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kilonova.api.times import parse_time
from kilonova.local.nodes.process.kubelet.pods import ContainerStatus, Pod, Terminated
from kilonova.local.nodes.process.runtime import ContainerState

RUNTIME = "kilonova-process"
LOST = "ContainerStatusUnknown"
_KILLED = 137


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt to run a container. Times are seconds since 1970."""

    attempt: int
    id: str
    started: float
    finished: float | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def is_running(self) -> bool:
        return self.finished is None

    @property
    def succeeded(self) -> bool:
        return self.finished is not None and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class History:
    """The latest run of a container, and the one before it."""

    latest: Run | None = None
    previous: Run | None = None

    @property
    def next_attempt(self) -> int:
        return 0 if self.latest is None else self.latest.attempt + 1

    def began(self, run: Run) -> "History":
        """With a new run."""
        return History(run, self.latest)

    def changed(self, run: Run) -> "History":
        """With what is now known of the latest run; of an older one there is nothing to learn."""
        if self.latest is None or self.latest.id != run.id:
            return self
        return replace(self, latest=run)


def run_id(uid: str, container: str, attempt: int) -> str:
    """The id of a run, for the runtime."""
    return f"{uid}_{container}_{attempt}"


def attempt_of(state: ContainerState) -> int:
    """Which attempt the runtime speaks of."""
    return int(state.id.rpartition("_")[2])


def run_of(state: ContainerState) -> Run:
    """A run as the runtime knows it."""
    return Run(
        attempt_of(state),
        state.id,
        state.started,
        state.finished,
        state.exit_code or 0,
        state.reason,
        state.message,
    )


def recovered(pod: Pod, states: Iterable[ContainerState], now: float) -> dict[str, History]:
    """What is known of a pod's containers: from the runtime, and from its status for the rest."""
    known: dict[str, list[Run]] = {each.name: [] for each in pod.all_containers}
    for state in states:
        if state.name in known:
            known[state.name].append(run_of(state))
    histories: dict[str, History] = {}
    for name, found in known.items():
        ids = {run.id for run in found}
        told = [run for run in _reported(pod, name, now) if run.id not in ids]
        runs = sorted([*found, *told], key=lambda run: run.attempt, reverse=True)
        histories[name] = History(*runs[:2])
    return histories


def _reported(pod: Pod, name: str, now: float) -> list[Run]:
    status = pod.reported(name)
    if status is None:
        return []
    count = status.restart_count
    state, last = status.state, status.last_state.terminated
    if state.running is not None:
        # It ran, and the runtime knows nothing of it: whatever ended it told nobody.
        message = "The container could not be located when the pod was terminated"
        runs = [_lost(pod, status, message, now)]
    elif state.terminated is not None:
        runs = [_ended(pod, name, count, state.terminated)]
    else:
        return [_ended(pod, name, count, last)] if last is not None else []
    if last is not None and count:
        runs.append(_ended(pod, name, count - 1, last))
    return runs


def _ended(pod: Pod, name: str, attempt: int, said: Terminated) -> Run:
    return Run(
        attempt,
        run_id(pod.uid, name, attempt),
        _seconds(said.started_at),
        _seconds(said.finished_at),
        said.exit_code,
        said.reason,
        said.message,
    )


def _lost(pod: Pod, status: ContainerStatus, message: str, now: float) -> Run:
    running = status.state.running
    return Run(
        status.restart_count,
        run_id(pod.uid, status.name, status.restart_count),
        _seconds(running.started_at if running else None),
        now,
        _KILLED,
        LOST,
        message,
    )


def _seconds(moment: str | None) -> float:
    return parse_time(moment).timestamp() if moment else 0.0
