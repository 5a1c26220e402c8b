"""How a pod is, in one word, and why. Pure.

The word is the one that `kubectl get pods` has in its column STATUS.
"""

from collections.abc import Sequence

from kilonova.api.meta import Condition
from kilonova.console.objects import Pod, Terminated
from kilonova.console.rows import ENDED


def pod_state(pod: Pod) -> str:
    """One word: `Running`, `SchedulingGated`, `Init:0/1`, `CrashLoopBackOff`, `Terminating` …"""
    status = pod.status
    if pod.metadata.deletion_timestamp is not None:
        if status.reason == "NodeLost":
            return "Unknown"
        if status.phase not in ENDED:
            return "Terminating"
    word = status.reason or status.phase
    # The condition outlives the gates until a scheduler has looked at the pod.
    if pod.spec.scheduling_gates and not pod.spec.node_name:
        word = "SchedulingGated"
    initializing = _initializing(pod)
    if initializing and not is_true(status.conditions, "Initialized"):
        return initializing
    return _of_containers(pod, initializing or word)


def why(pod: Pod) -> tuple[str, str]:
    """Reason and message of what a pod waits for, or why it failed; empty where all is well."""
    status = pod.status
    scheduled = condition_of(status.conditions, "PodScheduled")
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
            said = ended.message or f"container {each.name} exited with {ended.exit_code}"
            return _end(ended), said
    return "", ""


def condition_of(conditions: Sequence[Condition], type_: str) -> Condition | None:
    """The condition of a type, if there is one."""
    return next((each for each in conditions if each.type == type_), None)


def is_true(conditions: Sequence[Condition], type_: str) -> bool:
    """Whether a condition is there and true."""
    found = condition_of(conditions, type_)
    return found is not None and found.status == "True"


def _initializing(pod: Pod) -> str:
    """What the first init container that holds up the others says; empty if none does."""
    inits = pod.spec.init_containers
    sidecars = {each.name for each in inits if each.restart_policy == "Always"}
    for index, each in enumerate(pod.status.init_container_statuses):
        waiting, ended = each.state.waiting, each.state.terminated
        if ended is not None and not ended.exit_code:
            continue
        if each.name in sidecars and each.started:
            continue
        if ended is not None:
            return f"Init:{_end(ended)}"
        if waiting is not None and waiting.reason not in ("", "PodInitializing"):
            return f"Init:{waiting.reason}"
        return f"Init:{index}/{len(inits)}"
    return ""


def _of_containers(pod: Pod, word: str) -> str:
    running, failure = False, ""
    for each in reversed(pod.status.container_statuses):
        state = each.state
        if state.waiting is not None and state.waiting.reason:
            word = state.waiting.reason
        elif state.terminated is not None:
            word = _end(state.terminated)
            if state.terminated.exit_code:
                failure = word
        elif each.ready and state.running is not None:
            running = True
    if word != "Completed":
        return word
    if running and is_true(pod.status.conditions, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else word)


def _end(ended: Terminated) -> str:
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"
