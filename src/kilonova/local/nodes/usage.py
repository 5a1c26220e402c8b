"""What simulated pods use: plausible, and the same at every look. Pure."""

from collections.abc import Iterable
from datetime import datetime
from zlib import crc32

from kilonova.api.quantity import from_json
from kilonova.local.controllers.objects import Container, Pod
from kilonova.local.kubelets import ContainerUsage, NodeUsage, PodUsage
from kilonova.local.nodes.podstatus import is_backing_off

_WINDOW_SECONDS = 15.0
_LEAST_SHARE, _SHARES = 0.2, 0.6
"""A container uses between a fifth and four fifths of what it requested."""
_UNASKED_CPU = 10_000_000
_UNASKED_MEMORY = 64 << 20
"""What a container without requests is taken to have asked for: nanocores and bytes."""
_SYSTEM_CPU = 50_000_000
_SYSTEM_MEMORY = 512 << 20


def simulated_usage(pods: Iterable[Pod], now: datetime) -> NodeUsage:
    """Of a node: its running pods, and a little for itself."""
    running = (pod for pod in pods if pod.status.phase == "Running")
    used = tuple(_pod_usage(pod) for pod in running if not is_backing_off(pod))
    containers = [each for pod in used for each in pod.containers]
    return NodeUsage(
        now,
        _WINDOW_SECONDS,
        _SYSTEM_CPU + sum(each.cpu_nanocores for each in containers),
        _SYSTEM_MEMORY + sum(each.memory_bytes for each in containers),
        used,
    )


def _pod_usage(pod: Pod) -> PodUsage:
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    return PodUsage(
        pod.metadata.namespace,
        pod.metadata.name,
        tuple(_usage(pod.metadata.uid, each) for each in (*pod.spec.containers, *sidecars)),
    )


def _usage(uid: str, container: Container) -> ContainerUsage:
    requests = container.resources.requests
    cpu = from_json(requests["cpu"]).nano if "cpu" in requests else _UNASKED_CPU
    memory = from_json(requests["memory"]).value if "memory" in requests else _UNASKED_MEMORY
    return ContainerUsage(
        container.name,
        int(cpu * _share(uid, container.name, "cpu")),
        int(memory * _share(uid, container.name, "memory")) >> 10 << 10,
    )


def _share(*seed: str) -> float:
    return _LEAST_SHARE + _SHARES * crc32("/".join(seed).encode()) / (1 << 32)
