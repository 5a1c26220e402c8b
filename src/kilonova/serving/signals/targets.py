"""What is read for a service: its gateways, and its servers that have metrics. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from kilonova.api.serving import STATS_PORT, InferenceServiceSpec, names
from kilonova.serving.resources import Pod
from kilonova.serving.signals.http_reader import Address

_RUNTIMES_WITH_METRICS = frozenset({"Triton", "ModelServer"})


@dataclass(frozen=True, slots=True)
class Target:
    """A gateway, or a server of a group."""

    name: str
    """The name of the pod."""
    address: Address
    group: str = ""
    """The group of a server; empty for a gateway."""
    is_required: bool = True
    """Whether it is a problem if it does not answer. A command of a user need not have metrics."""

    @property
    def title(self) -> str:
        """What it is called in problems."""
        return f"{'server' if self.group else 'gateway'} {self.name}"


def list_targets(
    spec: InferenceServiceSpec, pods: Iterable[Pod], stats_port: int = STATS_PORT
) -> list[Target]:
    """The ready gateways and servers of a service, by name."""
    groups = {group.name: group for group in spec.servers}
    targets: list[Target] = []
    for pod in sorted(pods, key=lambda each: each.metadata.name):
        labels, address = pod.metadata.labels, pod.status.pod_ip
        if not pod.is_ready or not address:
            continue
        if labels.get(names.ROLE) == "gateway":
            targets.append(Target(pod.metadata.name, (address, stats_port)))
            continue
        group = groups.get(labels.get(names.SERVER, ""))
        if group is None or not is_entry(pod) or not group.ports.metrics:
            continue
        is_required = group.runtime in _RUNTIMES_WITH_METRICS
        targets.append(
            Target(pod.metadata.name, (address, group.ports.metrics), group.name, is_required)
        )
    return targets


def is_entry(pod: Pod) -> bool:
    """Whether the pod is one of a server that gets requests."""
    return pod.metadata.labels.get(names.ENTRY) == "true"


def count_ready_servers(pods: Iterable[Pod]) -> dict[str, int]:
    """The servers of each group that get requests."""
    counts: dict[str, int] = {}
    for pod in pods:
        if pod.metadata.labels.get(names.ROLE) == "server" and is_entry(pod) and pod.is_ready:
            group = pod.metadata.labels.get(names.SERVER, "")
            counts[group] = counts.get(group, 0) + 1
    return counts
