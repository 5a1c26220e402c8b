"""Usage of simulated pods: plausible, and deterministic. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from zlib import crc32

from kilonova.api.gpu import annotations as gpu_annotations
from kilonova.api.gpu.annotations import InvalidAnnotation, parse_devices
from kilonova.api.gpu.metrics import GpuReading
from kilonova.api.quantity import quantity_from_json
from kilonova.local.kubelet_api import ContainerUsage, NodeUsage, PodUsage
from kilonova.local.objects.core import Container, Pod
from kilonova.local.simnodes.pods.state import is_backing_off

_WINDOW_SECONDS = 15.0
_MIN_USAGE_SHARE, _USAGE_SHARE_RANGE = 0.2, 0.6
"""A container uses between a fifth and four fifths of its requests."""
_DEFAULT_CPU = 10_000_000
_DEFAULT_MEMORY = 64 << 20
"""The assumed requests of a container without requests: nanocores and bytes."""
_SYSTEM_CPU = 50_000_000
_SYSTEM_MEMORY = 512 << 20


def simulate_node_usage(pods: Iterable[Pod], now: datetime) -> NodeUsage:
    """The usage of a node: its running pods, and an overhead of its own."""
    running = [pod for pod in pods if pod.status.phase == "Running" and not is_backing_off(pod)]
    used = tuple(map(_simulate_pod_usage, running))
    containers = [each for pod in used for each in pod.containers]
    return NodeUsage(
        now,
        _WINDOW_SECONDS,
        _SYSTEM_CPU + sum(each.cpu_nanocores for each in containers),
        _SYSTEM_MEMORY + sum(each.memory_bytes for each in containers),
        used,
        _simulate_gpu_usage(running, now),
    )


def _simulate_gpu_usage(pods: Iterable[Pod], now: datetime) -> tuple[GpuReading, ...]:
    """The utilisation of the GPUs that a scheduler assigned to pods; it changes every minute."""
    utilisation: defaultdict[int, float] = defaultdict(float)
    minute = str(int(now.timestamp() // 60))
    for pod in pods:
        assigned = parse_devices(pod.metadata.annotations.get(gpu_annotations.DEVICES, ""))
        for each in () if isinstance(assigned, InvalidAnnotation) else assigned:
            level = _usage_share(pod.metadata.uid, str(each.index))
            noise = _usage_share(pod.metadata.uid, str(each.index), minute) / 4
            utilisation[each.index] += (level + noise) * each.milli / 1000
    return tuple(
        GpuReading(index, round(min(1.0, busy), 2)) for index, busy in sorted(utilisation.items())
    )


def _simulate_pod_usage(pod: Pod) -> PodUsage:
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    return PodUsage(
        pod.metadata.namespace,
        pod.metadata.name,
        tuple(
            _simulate_container_usage(pod.metadata.uid, each)
            for each in (*pod.spec.containers, *sidecars)
        ),
    )


def _simulate_container_usage(uid: str, container: Container) -> ContainerUsage:
    requests = container.resources.requests
    cpu = quantity_from_json(requests["cpu"]).nano if "cpu" in requests else _DEFAULT_CPU
    memory = (
        quantity_from_json(requests["memory"]).value if "memory" in requests else _DEFAULT_MEMORY
    )
    return ContainerUsage(
        container.name,
        int(cpu * _usage_share(uid, container.name, "cpu")),
        int(memory * _usage_share(uid, container.name, "memory")) >> 10 << 10,
    )


def _usage_share(*seed: str) -> float:
    return _MIN_USAGE_SHARE + _USAGE_SHARE_RANGE * crc32("/".join(seed).encode()) / (1 << 32)
