"""Pods that no scheduler considers: they are gated, or name a scheduler that does not serve them.
Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME
from kilonova.scheduler.convert.gangs.podgangs import FindPod, GangNotReady, is_schedulable
from kilonova.scheduler.objects.core_v1 import Pod

NOT_SERVED = "SchedulerNotServed"
GATED = "SchedulingGated"


def find_unserved_gangs(
    not_ready: Mapping[str, GangNotReady],
    find_pod: FindPod,
    scheduler_names: Collection[str],
) -> dict[str, GangNotReady]:
    """Of gangs that lack pods, those whose pods exist and name another scheduler."""
    unserved: dict[str, GangNotReady] = {}
    for name, why in not_ready.items():
        pods = filter(None, map(find_pod, why.pods))
        message = _unserved_message(
            [pod for pod in pods if _is_unserved(pod, scheduler_names)], scheduler_names
        )
        if why.reason == "PodsNotFound" and message:
            unserved[name] = replace(why, reason=NOT_SERVED, message=message)
    return unserved


def find_unserved_pods(
    pods: Iterable[Pod], scheduler_names: Collection[str]
) -> dict[str, GangNotReady]:
    """Pending pods that name another scheduler."""
    return {
        pod.key: GangNotReady(NOT_SERVED, _unserved_message([pod], scheduler_names), (pod.key,))
        for pod in pods
        if _is_unserved(pod, scheduler_names)
    }


def find_gated_pods(pods: Iterable[Pod]) -> dict[str, GangNotReady]:
    """Pods with scheduling gates."""
    return {
        pod.key: GangNotReady(GATED, _gated_message(pod), (pod.key,))
        for pod in pods
        if pod.spec.scheduling_gates and not (pod.ended or pod.metadata.deletion_timestamp)
    }


def _gated_message(pod: Pod) -> str:
    names = ", ".join(f'"{gate.name}"' for gate in pod.spec.scheduling_gates)
    gates = "gate" if len(pod.spec.scheduling_gates) == 1 else "gates"
    return f"scheduling is gated until the removal of its {gates} {names}"


def _is_unserved(pod: Pod, scheduler_names: Collection[str]) -> bool:
    return is_schedulable(pod) and pod.spec.scheduler_name not in scheduler_names


def _unserved_message(pods: list[Pod], scheduler_names: Collection[str]) -> str:
    if not pods:
        return ""
    named = sorted({pod.spec.scheduler_name for pod in pods})
    subject = f"{len(pods)} of its pods name" if len(pods) > 1 else "it names"
    served = " or ".join(sorted(scheduler_names))
    names = ", ".join(f'"{each}"' for each in named)
    if named == [DEFAULT_SCHEDULER_NAME]:
        return (
            f"{subject} the scheduler {names}, which is not this scheduler: "
            f"set schedulerName to {served} to have them scheduled by it"
        )
    return (
        f"{subject} the scheduler {names}, and no scheduler of that name is known: "
        f"set schedulerName to {served}, or start a scheduler of that name"
    )
