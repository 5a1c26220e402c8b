"""Requests of containers that are resized in place, as kube-scheduler counts them. Pure.

While a resize is on its way, a container may use what it had, what the kubelet has allocated, or
what it asks for now: the largest counts. A resize that is infeasible on its node will not happen:
what it asks for does not count.
"""

from collections.abc import Mapping

from kilonova.scheduler.objects import Container, ContainerStatus, Pod, ReportedAmounts
from kilonova.scheduler.reading.amounts import amounts_of

Statuses = Mapping[str, ContainerStatus]
"""What the kubelet reports of containers, by name."""


def statuses_of(pod: Pod) -> Statuses:
    """Those of containers of which the kubelet reports resources."""
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return {}
    reported = (*status.container_statuses, *status.init_container_statuses)
    return {each.name: each for each in reported if each.resources is not None}


def requests_in_use(
    container: Container, statuses: Statuses, *, infeasible: bool
) -> dict[str, int]:
    """What a container counts on its node."""
    wanted = amounts_of(container.resources.requests)
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return wanted
    actual = _amounts(status.resources.requests)
    for name, amount in _amounts(status.allocated_resources).items():
        actual[name] = max(amount, actual.get(name, 0))
    if infeasible:
        return wanted | actual
    return wanted | {name: max(amount, wanted.get(name, 0)) for name, amount in actual.items()}


def is_infeasible(pod: Pod) -> bool:
    """Whether the node of a pod can never give it what it asks for now."""
    return any(
        each.type == "PodResizePending" and each.status == "True" and each.reason == "Infeasible"
        for each in pod.status.conditions
    )


def reports_otherwise(old: Pod, new: Pod) -> bool:
    """Whether the kubelet reports other resources, or another verdict on a resize."""
    was, now = old.status, new.status
    if (
        was.container_statuses == now.container_statuses
        and was.init_container_statuses == now.init_container_statuses
        and was.conditions == now.conditions
    ):
        return False
    return is_infeasible(old) != is_infeasible(new) or _reported(old) != _reported(new)


def _reported(pod: Pod) -> dict[str, tuple[object, object]]:
    return {
        name: (status.resources, status.allocated_resources)
        for name, status in statuses_of(pod).items()
    }


def _amounts(reported: ReportedAmounts | None) -> dict[str, int]:
    if reported is None:
        return {}
    given = {"cpu": reported.cpu, "memory": reported.memory}
    return amounts_of({name: amount for name, amount in given.items() if amount is not None})
