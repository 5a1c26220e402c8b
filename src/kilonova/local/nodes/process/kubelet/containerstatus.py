"""What is said of a container in its pod's status. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.local.nodes.process.kubelet.pods import Container, Pod, is_sidecar
from kilonova.local.nodes.process.kubelet.restarts import restarts_after
from kilonova.local.nodes.process.kubelet.runs import RUNTIME, History, Run
from kilonova.local.nodes.process.kubelet.sequence import HEALTHY, Health


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container does not run yet."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A container as it is now."""

    history: History
    health: Health = HEALTHY
    waiting: Waiting | None = None
    """What the last try to start it came to."""
    in_hook: bool = False
    """Its postStart hook is under way: nobody is told yet that it runs."""


def container_status(pod: Pod, container: Container, seen: Seen, *, ending: bool) -> JsonObject:
    """One entry of `containerStatuses` or `initContainerStatuses`.

    `ending`: the pod ends, so that what has ended is not waiting for anything.
    """
    run, previous = seen.history.latest, seen.history.previous
    last = previous
    state: JsonObject
    if run is None:
        state = {"waiting": _waiting(seen.waiting or _default_waiting(pod))}
    elif run.is_running and not seen.in_hook:
        state = {"running": {"startedAt": _moment(run.started)}}
    elif run.is_running:
        state = {"waiting": _waiting(_default_waiting(pod))}
    elif seen.waiting is not None and not ending and will_restart(pod, container, run):
        state, last = {"waiting": _waiting(seen.waiting)}, run
    else:
        state = {"terminated": _terminated(run)}
    shown_running = "running" in state
    started = shown_running and seen.health.startup is True
    status: JsonObject = {
        "name": container.name,
        "state": state,
        "lastState": {"terminated": _terminated(last)} if last is not None else {},
        "ready": _is_ready(pod, container, run, seen, started=started),
        "restartCount": run.attempt if run is not None else 0,
        "image": container.image,
        "imageID": "",
        "started": started,
    }
    if run is not None and run.id:
        status["containerID"] = f"{RUNTIME}://{run.id}"
    return {**status, **_resources(container), **_mounts(container)}


def will_restart(pod: Pod, container: Container, run: Run) -> bool:
    """Whether a container that has ended is to run again, in a pod that goes on."""
    if pod.is_ephemeral(container.name):
        return False
    if pod.is_init(container.name):
        return is_sidecar(container) or (
            not run.succeeded and restarts_after(pod, container, run.exit_code)
        )
    return restarts_after(pod, container, run.exit_code)


def _is_ready(
    pod: Pod, container: Container, run: Run | None, seen: Seen, *, started: bool
) -> bool:
    if pod.is_init(container.name) and not is_sidecar(container):
        return run is not None and run.succeeded
    return started and seen.health.ready


def _default_waiting(pod: Pod) -> Waiting:
    return Waiting("PodInitializing" if pod.spec.init_containers else "ContainerCreating")


def _waiting(waiting: Waiting) -> JsonObject:
    if not waiting.message:
        return {"reason": waiting.reason}
    return {"reason": waiting.reason, "message": waiting.message}


def _terminated(run: Run) -> JsonObject:
    state: JsonObject = {
        "exitCode": run.exit_code,
        "reason": run.reason,
        "message": run.message,
        "startedAt": _moment(run.started),
        "finishedAt": _moment(run.finished or 0.0),
        "containerID": f"{RUNTIME}://{run.id}" if run.id else "",
    }
    return {name: value for name, value in state.items() if value != ""}


def _moment(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC))


def _resources(container: Container) -> JsonObject:
    resources = container.resources
    shown: JsonObject = {"resources": msgspec.to_builtins(resources)}
    shown["resources"] = {name: value for name, value in shown["resources"].items() if value}
    if resources.requests:
        shown["allocatedResources"] = dict(resources.requests)
    return shown


def _mounts(container: Container) -> JsonObject:
    mounts: list[JsonObject] = []
    for mount in container.volume_mounts:
        shown: JsonObject = {"name": mount.name, "mountPath": mount.mount_path}
        if mount.read_only:
            shown |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
        mounts.append(shown)
    return {"volumeMounts": mounts} if mounts else {}
