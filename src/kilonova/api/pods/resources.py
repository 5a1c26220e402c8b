"""The effective requests and limits of a pod, from those of its containers. Pure.

The rules are those of `PodRequests` and `PodLimits` in k8s.io/component-helpers/resource, for any
number type: the caller converts the quantities. An init container is given with its restartPolicy;
one with `Always` is a sidecar.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from kilonova.api.quantity import Quantity

Amount = TypeVar("Amount", int, float, Quantity)

HUGE_PAGES_PREFIX = "hugepages-"
_POD_LEVEL_RESOURCES = ("cpu", "memory")
_SIDECAR_RESTART_POLICY = "Always"


def pod_requests(
    containers: Iterable[Mapping[str, Amount]],
    init_containers: Iterable[tuple[Mapping[str, Amount], str | None]],
    pod_level: Mapping[str, Amount],
    overhead: Mapping[str, Amount],
) -> dict[str, Amount]:
    """The requests of a whole pod: pod-level requests replace those of its containers, and overhead
    is added."""
    total = sum_containers(containers, init_containers)
    if pod_level:
        _replace_amounts(total, pod_level)
    if overhead:
        add_amounts(total, overhead)
    return total


def pod_limits(
    containers: Iterable[Mapping[str, Amount]],
    init_containers: Iterable[tuple[Mapping[str, Amount], str | None]],
    pod_level: Mapping[str, Amount],
    overhead: Mapping[str, Amount],
) -> dict[str, Amount]:
    """The limits of a whole pod. Overhead is added only to resources that have a limit."""
    total = sum_containers(containers, init_containers)
    _replace_amounts(total, pod_level)
    add_amounts(total, {name: amount for name, amount in overhead.items() if total.get(name)})
    return total


def sum_containers(
    containers: Iterable[Mapping[str, Amount]],
    init_containers: Iterable[tuple[Mapping[str, Amount], str | None]],
) -> dict[str, Amount]:
    """The maximum that the containers of a pod need at any time.

    Init containers run one after the other, each together with the sidecars started before it; then
    all containers and sidecars run together.
    """
    total: dict[str, Amount] = {}
    for amounts in containers:
        add_amounts(total, amounts)
    sidecars: dict[str, Amount] = {}
    peak: dict[str, Amount] = {}
    for amounts, restart_policy in init_containers:
        if restart_policy == _SIDECAR_RESTART_POLICY:
            add_amounts(total, amounts)
            add_amounts(sidecars, amounts)
            continue
        for name, amount in amounts.items():
            needed = amount + sidecars[name] if name in sidecars else amount
            if name not in peak or needed > peak[name]:
                peak[name] = needed
    for name, amount in peak.items():
        if name not in total or amount > total[name]:
            total[name] = amount
    return total


def add_amounts(total: dict[str, Amount], amounts: Mapping[str, Amount]) -> None:
    """Add amounts to a total, by resource."""
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def is_pod_level_resource(name: str) -> bool:
    """Whether a resource can be requested or limited for a whole pod."""
    return name in _POD_LEVEL_RESOURCES or name.startswith(HUGE_PAGES_PREFIX)


def _replace_amounts(total: dict[str, Amount], pod_level: Mapping[str, Amount]) -> None:
    for name, amount in pod_level.items():
        if is_pod_level_resource(name):
            total[name] = amount
