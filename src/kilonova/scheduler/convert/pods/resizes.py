"""Requests of containers that are resized in place, as kube-scheduler counts them. Pure.

While a resize is in progress, a container may use its actual, its allocated or its requested
resources: the largest counts. An infeasible resize will not happen, so its request does not count.
"""

from collections.abc import Mapping

from kilonova.scheduler.convert.quantities import convert_quantities
from kilonova.scheduler.objects.core_v1 import Container, ContainerStatus, Pod, ReportedQuantities

ContainerStatuses = Mapping[str, ContainerStatus]
"""Container statuses by container name."""


def resizable_statuses(pod: Pod) -> ContainerStatuses:
    """The statuses in which the kubelet reports resources."""
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return {}
    reported = (*status.container_statuses, *status.init_container_statuses)
    return {each.name: each for each in reported if each.resources is not None}


def container_requests(
    container: Container, statuses: ContainerStatuses, *, infeasible: bool
) -> dict[str, int]:
    """The effective requests of a container."""
    requested = convert_quantities(container.resources.requests)
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return requested
    actual = _convert_reported(status.resources.requests)
    for name, amount in _convert_reported(status.allocated_resources).items():
        actual[name] = max(amount, actual.get(name, 0))
    if infeasible:
        return requested | actual
    return requested | {
        name: max(amount, requested.get(name, 0)) for name, amount in actual.items()
    }


def is_resize_infeasible(pod: Pod) -> bool:
    """Whether the kubelet reported the resize of a pod as infeasible."""
    return any(
        each.type == "PodResizePending" and each.status == "True" and each.reason == "Infeasible"
        for each in pod.status.conditions
    )


def has_resize_changed(old: Pod, new: Pod) -> bool:
    """Whether the reported resources or the feasibility of a resize changed."""
    was, now = old.status, new.status
    if (
        was.container_statuses == now.container_statuses
        and was.init_container_statuses == now.init_container_statuses
        and was.conditions == now.conditions
    ):
        return False
    return is_resize_infeasible(old) != is_resize_infeasible(new) or _reported_resources(
        old
    ) != _reported_resources(new)


def _reported_resources(pod: Pod) -> dict[str, tuple[object, object]]:
    return {
        name: (status.resources, status.allocated_resources)
        for name, status in resizable_statuses(pod).items()
    }


def _convert_reported(reported: ReportedQuantities | None) -> dict[str, int]:
    if reported is None:
        return {}
    quantities = {"cpu": reported.cpu, "memory": reported.memory}
    return convert_quantities(
        {name: amount for name, amount in quantities.items() if amount is not None}
    )
