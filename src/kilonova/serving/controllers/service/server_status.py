"""The state of a group of servers, from its pods. Pure."""

from collections.abc import Iterable
from typing import cast

from kilonova.api.grove import names as grove_names
from kilonova.api.json import JsonObject
from kilonova.api.serving import ServerGroup, ServerGroupStatus
from kilonova.kube.status import find_condition
from kilonova.serving.builders.server_set import get_initial_replicas
from kilonova.serving.controllers.service.observed import ObservedService
from kilonova.serving.models.states import summarize_models
from kilonova.serving.repositories.volumes import DOWNLOAD_CONTAINER
from kilonova.serving.resources import ContainerStatus, Pod

_QUIET_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})
"""What every pod waits for when it starts."""
_CRASHED = "CrashLoopBackOff"
_MAX_MESSAGE = 300
"""Of what a container wrote at its end, which may be 4 KiB."""


def build_server_status(observed: ObservedService, group: ServerGroup) -> ServerGroupStatus:
    """The state of a group."""
    found = observed.find_server_set(group.name)
    desired = get_initial_replicas(group) if found is None else found.spec.replicas
    entries = [*observed.list_entry_pods(group.name)]
    present = [each for each in entries if each.metadata.deletion_timestamp is None]
    ready = _count_servers(each for each in present if each.is_ready)
    pods = [*observed.list_group_pods(group.name)]
    return ServerGroupStatus(
        name=group.name,
        desired=desired,
        replicas=_count_servers(present),
        ready=ready,
        draining=_count_servers(
            each for each in entries if each.metadata.deletion_timestamp is not None
        ),
        updated=0 if found is None else found.status.updated_replicas,
        models=summarize_models(group, present),
        message=_explain(pods) if ready < desired else "",
    )


def _count_servers(pods: Iterable[Pod]) -> int:
    """How many servers these entry pods are of: a pod of a Deployment is a server by itself."""
    return len(
        {
            each.metadata.labels.get(grove_names.SET_REPLICA_INDEX, each.metadata.name)
            for each in pods
        }
    )


def _explain(pods: Iterable[Pod]) -> str:
    """What a group waits for: the most telling of what its pods report."""
    waiting = [
        each for each in pods if each.metadata.deletion_timestamp is None and not each.is_ready
    ]
    explanations = [(text, each.metadata.name) for each in waiting if (text := explain_pod(each))]
    if not explanations:
        return "waiting for pods" if not waiting else f"{waiting[0].metadata.name} is starting"
    text, name = min(explanations, key=lambda each: each[1])
    others = len(explanations) - 1
    return f"{name}: {text}" + (f" (and {others} more)" if others else "")


def explain_pod(pod: Pod) -> str:
    """What a pod waits for; empty if it says nothing."""
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"{scheduled.reason}: {scheduled.message}"
    for each in pod.status.init_container_statuses:
        text = _explain_container(each)
        if each.name == DOWNLOAD_CONTAINER and "running" in each.state:
            return f"downloading models, after {text}" if text else "downloading models"
        if text:
            return text
    for each in pod.status.container_statuses:
        if text := _explain_container(each):
            return text
    return pod.status.message


def _explain_container(status: ContainerStatus) -> str:
    waiting = cast("JsonObject", status.state.get("waiting") or {})
    reason: str = waiting.get("reason", "")
    if reason not in _QUIET_REASONS:
        if reason == _CRASHED and (cause := _explain_last_exit(status)):
            return f"{reason}: {cause}"
        return f"{reason}: {waiting.get('message', '')}".removesuffix(": ")
    terminated = cast("JsonObject", status.state.get("terminated") or {})
    if terminated.get("exitCode"):
        return _explain_exit(status.name, terminated)
    return _explain_last_exit(status) if status.restart_count and not status.ready else ""


def _explain_last_exit(status: ContainerStatus) -> str:
    """Why a container was restarted; empty if it ended well."""
    terminated = cast("JsonObject", status.last_state.get("terminated") or {})
    return _explain_exit(status.name, terminated) if terminated.get("exitCode") else ""


def _explain_exit(container: str, terminated: JsonObject) -> str:
    """Why a container failed: what it wrote at its end, the reason, or its exit code."""
    lines = str(terminated.get("message") or "").strip().splitlines()
    message = lines[-1].strip() if lines else ""  # of a log, or a traceback, the error
    if len(message) > _MAX_MESSAGE:
        message = f"{message[: _MAX_MESSAGE - 1]}…"
    reason: str = terminated.get("reason") or ""
    exited = f"container {container} exited with code {terminated['exitCode']}"
    cause = ": ".join(each for each in ("" if reason == "Error" else reason, message) if each)
    return f"{exited}: {cause}" if cause else exited
