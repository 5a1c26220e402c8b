"""The state of a pod, and its reason. Pure.

The state is that of the STATUS column of `kubectl get pods`.
"""

from kilonova.console.objects import ContainerStateTerminated, Pod
from kilonova.console.rows.model import TERMINAL_PHASES
from kilonova.kube.status import find_condition, is_condition_true


def pod_state(pod: Pod) -> str:
    """The state: `Running`, `SchedulingGated`, `Init:0/1`, `CrashLoopBackOff`, `Terminating` …"""
    status = pod.status
    if pod.metadata.deletion_timestamp is not None:
        if status.reason == "NodeLost":
            return "Unknown"
        if status.phase not in TERMINAL_PHASES:
            return "Terminating"
    state = status.reason or status.phase
    # The condition remains after the gates are removed, until a scheduler observes the pod.
    if pod.spec.scheduling_gates and not pod.spec.node_name:
        state = "SchedulingGated"
    initializing = _init_state(pod)
    if initializing and not is_condition_true(status.conditions, "Initialized"):
        return initializing
    return _container_state(pod, initializing or state)


def pod_reason(pod: Pod) -> tuple[str, str]:
    """Why a pod is pending or failed, as reason and message; empty if it is neither."""
    status = pod.status
    scheduled = find_condition(status.conditions, "PodScheduled")
    if (
        scheduled is not None
        and scheduled.status == "False"
        and not pod.spec.node_name
        and (scheduled.reason != "SchedulingGated" or pod.spec.scheduling_gates)
    ):
        return scheduled.reason, scheduled.message
    if status.reason or status.message:
        return status.reason, status.message
    for each in (*status.init_container_statuses, *status.container_statuses):
        state = each.state
        if state.waiting is not None and state.waiting.message:
            return state.waiting.reason, state.waiting.message
        if state.terminated is not None and state.terminated.exit_code:
            ended = state.terminated
            message = ended.message or f"container {each.name} exited with {ended.exit_code}"
            return _termination_reason(ended), message
    return "", ""


def _init_state(pod: Pod) -> str:
    """The state of the first init container that is not complete; empty if all are."""
    inits = pod.spec.init_containers
    sidecars = {each.name for each in inits if each.restart_policy == "Always"}
    for index, each in enumerate(pod.status.init_container_statuses):
        waiting, ended = each.state.waiting, each.state.terminated
        if ended is not None and not ended.exit_code:
            continue
        if each.name in sidecars and each.started:
            continue
        if ended is not None:
            return f"Init:{_termination_reason(ended)}"
        if waiting is not None and waiting.reason not in ("", "PodInitializing"):
            return f"Init:{waiting.reason}"
        return f"Init:{index}/{len(inits)}"
    return ""


def _container_state(pod: Pod, fallback: str) -> str:
    state, running, failure = fallback, False, ""
    for each in reversed(pod.status.container_statuses):
        container = each.state
        if container.waiting is not None and container.waiting.reason:
            state = container.waiting.reason
        elif container.terminated is not None:
            state = _termination_reason(container.terminated)
            if container.terminated.exit_code:
                failure = state
        elif each.ready and container.running is not None:
            running = True
    if state != "Completed":
        return state
    if running and is_condition_true(pod.status.conditions, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else state)


def _termination_reason(terminated: ContainerStateTerminated) -> str:
    if terminated.reason:
        return terminated.reason
    return (
        f"Signal:{terminated.signal}" if terminated.signal else f"ExitCode:{terminated.exit_code}"
    )
