"""Container statuses. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.local.processnode.kubelet.containers.actions import DEFAULT_HEALTH, ProbeHealth
from kilonova.local.processnode.kubelet.containers.restart_policy import should_restart
from kilonova.local.processnode.kubelet.containers.runs import (
    RUNTIME_NAME,
    ContainerRun,
    RunHistory,
)
from kilonova.local.processnode.kubelet.objects import Container, Pod, is_sidecar


@dataclass(frozen=True, slots=True)
class WaitingState:
    """Why a container is waiting."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ObservedContainer:
    """The current state of a container."""

    history: RunHistory
    health: ProbeHealth = DEFAULT_HEALTH
    waiting: WaitingState | None = None
    """The result of the last attempt to start it."""
    is_in_post_start: bool = False
    """Its postStart hook is running: it is not reported as running yet."""


def build_container_status(
    pod: Pod, container: Container, observed: ObservedContainer, *, is_ending: bool
) -> JsonObject:
    """One entry of `containerStatuses` or `initContainerStatuses`.

    `is_ending`: the pod is ending, so that an ended container is not reported as waiting.
    """
    run, previous = observed.history.latest, observed.history.previous
    last = previous
    state: JsonObject
    if run is None:
        state = {"waiting": _build_waiting(observed.waiting or _default_waiting_state(pod))}
    elif run.is_running and not observed.is_in_post_start:
        state = {"running": {"startedAt": _format_time(run.started)}}
    elif run.is_running:
        state = {"waiting": _build_waiting(_default_waiting_state(pod))}
    elif observed.waiting is not None and not is_ending and will_restart(pod, container, run):
        state, last = {"waiting": _build_waiting(observed.waiting)}, run
    else:
        state = {"terminated": _build_terminated(run)}
    shown_running = "running" in state
    started = shown_running and observed.health.has_started is True
    status: JsonObject = {
        "name": container.name,
        "state": state,
        "lastState": {"terminated": _build_terminated(last)} if last is not None else {},
        "ready": _is_ready(pod, container, run, observed, started=started),
        "restartCount": run.attempt if run is not None else 0,
        "image": container.image,
        "imageID": "",
        "started": started,
    }
    if run is not None and run.id:
        status["containerID"] = f"{RUNTIME_NAME}://{run.id}"
    return {**status, **_build_resources(container), **_build_mounts(container)}


def will_restart(pod: Pod, container: Container, run: ContainerRun) -> bool:
    """Whether a container that has ended will be restarted while the pod goes on."""
    if pod.is_ephemeral(container.name):
        return False
    if pod.is_init(container.name):
        return is_sidecar(container) or (
            not run.succeeded and should_restart(pod, container, run.exit_code)
        )
    return should_restart(pod, container, run.exit_code)


def _is_ready(
    pod: Pod,
    container: Container,
    run: ContainerRun | None,
    observed: ObservedContainer,
    *,
    started: bool,
) -> bool:
    if pod.is_init(container.name) and not is_sidecar(container):
        return run is not None and run.succeeded
    return started and observed.health.is_ready


def _default_waiting_state(pod: Pod) -> WaitingState:
    return WaitingState("PodInitializing" if pod.spec.init_containers else "ContainerCreating")


def _build_waiting(waiting: WaitingState) -> JsonObject:
    if not waiting.message:
        return {"reason": waiting.reason}
    return {"reason": waiting.reason, "message": waiting.message}


def _build_terminated(run: ContainerRun) -> JsonObject:
    state: JsonObject = {
        "exitCode": run.exit_code,
        "reason": run.reason,
        "message": run.message,
        "startedAt": _format_time(run.started),
        "finishedAt": _format_time(run.finished or 0.0),
        "containerID": f"{RUNTIME_NAME}://{run.id}" if run.id else "",
    }
    return {name: value for name, value in state.items() if value != ""}


def _format_time(seconds: float) -> str:
    return format_rfc3339(datetime.fromtimestamp(seconds, UTC))


def _build_resources(container: Container) -> JsonObject:
    resources = container.resources
    shown: JsonObject = {"resources": msgspec.to_builtins(resources)}
    shown["resources"] = {name: value for name, value in shown["resources"].items() if value}
    if resources.requests:
        shown["allocatedResources"] = dict(resources.requests)
    return shown


def _build_mounts(container: Container) -> JsonObject:
    mounts: list[JsonObject] = []
    for mount in container.volume_mounts:
        shown: JsonObject = {"name": mount.name, "mountPath": mount.mount_path}
        if mount.read_only:
            shown |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
        mounts.append(shown)
    return {"volumeMounts": mounts} if mounts else {}
