"""The accelerators of the cluster: how many there are, and how many are free.

Counted as pods and nodes change, since there may be very many pods. An accelerator is any extended
resource: its name has a domain other than Kubernetes' own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from kilonova.api.fleet import AcceleratorCount
from kilonova.api.pods.resources import sum_containers
from kilonova.api.quantity import quantity_from_json
from kilonova.fleet.member.resources import Amount, Container, Node, Pod
from kilonova.kube import Store

_ENDED = ("Succeeded", "Failed")


class AcceleratorUsage:
    """Accelerators in use, by node."""

    def __init__(self, nodes: Store[Node], pods: Store[Pod]) -> None:
        self._nodes = nodes
        self._used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in pods.objects():
            self._on_change(None, pod)
        pods.add_event_handler(self._on_change)

    def count(self) -> tuple[AcceleratorCount, ...]:
        """Totals and free ones by resource, of nodes that take pods."""
        total: Counter[str] = Counter()
        free: Counter[str] = Counter()
        for node in self._nodes.objects():
            used = self._used.get(node.metadata.name)
            for name, amount in _select_accelerators(node.status.allocatable):
                total[name] += amount
                left = amount - (used[name] if used is not None else 0)
                free[name] += max(0, left) if not node.spec.unschedulable else 0
        return tuple(AcceleratorCount(name, total[name], free[name]) for name in sorted(total))

    def _on_change(self, old: Pod | None, new: Pod | None) -> None:
        for pod, sign in ((old, -1), (new, 1)):
            if pod is None or not pod.spec.node_name or pod.status.phase in _ENDED:
                continue
            used = self._used[pod.spec.node_name]
            for name, amount in _list_requests(pod):
                used[name] += sign * amount


def _list_requests(pod: Pod) -> Iterator[tuple[str, int]]:
    requests = sum_containers(
        [_get_requests(each) for each in pod.spec.containers],
        [(_get_requests(each), each.restart_policy) for each in pod.spec.init_containers],
    )
    yield from requests.items()


def _get_requests(container: Container) -> dict[str, int]:
    amounts = {**container.resources.limits, **container.resources.requests}
    return dict(_select_accelerators(amounts))


def _select_accelerators(amounts: Mapping[str, Amount]) -> Iterator[tuple[str, int]]:
    for name, amount in amounts.items():
        domain, separator, _ = name.partition("/")
        if separator and not domain.endswith("kubernetes.io"):
            yield name, quantity_from_json(amount).value
