"""The runs of a container: each attempt to run it, and what the kubelet remembers of them.

The runtime keeps the last two runs of each container; a run that failed to start, or that the
runtime lost, is recovered from the pod's status. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kilonova.api.times import parse_time
from kilonova.local.processnode.cri.api import ContainerState
from kilonova.local.processnode.kubelet.objects import ContainerStatus, Pod, TerminatedState

RUNTIME_NAME = "kilonova-process"
CONTAINER_STATUS_UNKNOWN = "ContainerStatusUnknown"
_SIGKILL_EXIT_CODE = 137


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One attempt to run a container. Times are seconds since the epoch."""

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
class RunHistory:
    """The latest run of a container, and the one before it."""

    latest: ContainerRun | None = None
    previous: ContainerRun | None = None

    @property
    def next_attempt(self) -> int:
        return 0 if self.latest is None else self.latest.attempt + 1

    def with_new_run(self, run: ContainerRun) -> "RunHistory":
        """With a new latest run."""
        return RunHistory(run, self.latest)

    def with_update(self, run: ContainerRun) -> "RunHistory":
        """With the latest run updated; updates of older runs are ignored."""
        if self.latest is None or self.latest.id != run.id:
            return self
        return replace(self, latest=run)


def build_run_id(uid: str, container: str, attempt: int) -> str:
    """The id of a run in the runtime."""
    return f"{uid}_{container}_{attempt}"


def parse_attempt(state: ContainerState) -> int:
    """The attempt number of a container of the runtime."""
    return int(state.id.rpartition("_")[2])


def build_run(state: ContainerState) -> ContainerRun:
    """A run from the runtime's state of it."""
    return ContainerRun(
        parse_attempt(state),
        state.id,
        state.started,
        state.finished,
        state.exit_code or 0,
        state.reason,
        state.message,
    )


def recover_histories(
    pod: Pod, states: Iterable[ContainerState], now: float
) -> dict[str, RunHistory]:
    """The histories of a pod's containers: from the runtime, else from the pod's status."""
    runs_by_name: dict[str, list[ContainerRun]] = {each.name: [] for each in pod.all_containers}
    for state in states:
        if state.name in runs_by_name:
            runs_by_name[state.name].append(build_run(state))
    histories: dict[str, RunHistory] = {}
    for name, found in runs_by_name.items():
        ids = {run.id for run in found}
        reported = [run for run in _reported_runs(pod, name, now) if run.id not in ids]
        runs = sorted([*found, *reported], key=lambda run: run.attempt, reverse=True)
        histories[name] = RunHistory(*runs[:2])
    return histories


def _reported_runs(pod: Pod, name: str, now: float) -> list[ContainerRun]:
    status = pod.reported_status(name)
    if status is None:
        return []
    count = status.restart_count
    state, last = status.state, status.last_state.terminated
    if state.running is not None:
        # The status indicates that it ran, and the runtime has no record of it.
        message = "The container could not be located when the pod was terminated"
        runs = [_build_lost_run(pod, status, message, now)]
    elif state.terminated is not None:
        runs = [_build_ended_run(pod, name, count, state.terminated)]
    else:
        return [_build_ended_run(pod, name, count, last)] if last is not None else []
    if last is not None and count:
        runs.append(_build_ended_run(pod, name, count - 1, last))
    return runs


def _build_ended_run(
    pod: Pod, name: str, attempt: int, terminated: TerminatedState
) -> ContainerRun:
    return ContainerRun(
        attempt,
        build_run_id(pod.uid, name, attempt),
        _parse_seconds(terminated.started_at),
        _parse_seconds(terminated.finished_at),
        terminated.exit_code,
        terminated.reason,
        terminated.message,
    )


def _build_lost_run(pod: Pod, status: ContainerStatus, message: str, now: float) -> ContainerRun:
    running = status.state.running
    return ContainerRun(
        status.restart_count,
        build_run_id(pod.uid, status.name, status.restart_count),
        _parse_seconds(running.started_at if running else None),
        now,
        _SIGKILL_EXIT_CODE,
        CONTAINER_STATUS_UNKNOWN,
        message,
    )


def _parse_seconds(moment: str | None) -> float:
    return parse_time(moment).timestamp() if moment else 0.0
