"""Pods for which nobody looks for a node: they name a scheduler which does not serve them, or are
gated. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gangs import Found, NotYet, is_placeable

NOT_SERVED = "SchedulerNotServed"
GATED = "SchedulingGated"
_KUBE_SCHEDULER = "default-scheduler"


def unserved_gangs(
    not_yet: Mapping[str, NotYet], found: Found, serves: Collection[str]
) -> dict[str, NotYet]:
    """Of gangs that lack pods, those whose pods are there and name another scheduler."""
    told: dict[str, NotYet] = {}
    for name, why in not_yet.items():
        pods = filter(None, map(found, why.pods))
        message = _message([pod for pod in pods if _is_unserved(pod, serves)], serves)
        if why.reason == "PodsNotThere" and message:
            told[name] = replace(why, reason=NOT_SERVED, message=message)
    return told


def unserved_pods(pods: Iterable[Pod], serves: Collection[str]) -> dict[str, NotYet]:
    """Pods that wait for a scheduler of another name."""
    return {
        pod.key: NotYet(NOT_SERVED, _message([pod], serves), (pod.key,))
        for pod in pods
        if _is_unserved(pod, serves)
    }


def gated_pods(pods: Iterable[Pod]) -> dict[str, NotYet]:
    """Pods that wait for their scheduling gates to be removed."""
    return {
        pod.key: NotYet(GATED, _gates(pod), (pod.key,))
        for pod in pods
        if pod.spec.scheduling_gates and not (pod.ended or pod.metadata.deletion_timestamp)
    }


def _gates(pod: Pod) -> str:
    names = ", ".join(f'"{gate.name}"' for gate in pod.spec.scheduling_gates)
    gates = "gate" if len(pod.spec.scheduling_gates) == 1 else "gates"
    return f"it is gated: no node is looked for before the removal of its {gates} {names}"


def _is_unserved(pod: Pod, serves: Collection[str]) -> bool:
    return is_placeable(pod) and pod.spec.scheduler_name not in serves


def _message(pods: list[Pod], serves: Collection[str]) -> str:
    if not pods:
        return ""
    named = sorted({pod.spec.scheduler_name for pod in pods})
    who = f"{len(pods)} of its pods name" if len(pods) > 1 else "it names"
    ours = " or ".join(sorted(serves))
    names = ", ".join(f'"{each}"' for each in named)
    if named == [_KUBE_SCHEDULER]:
        return (
            f"{who} the scheduler {names}, which is not this one: "
            f"set schedulerName to {ours} to have them placed by it"
        )
    return (
        f"{who} the scheduler {names}, and no scheduler of that name is known to serve it: "
        f"set schedulerName to {ours}, or start a scheduler of that name"
    )
