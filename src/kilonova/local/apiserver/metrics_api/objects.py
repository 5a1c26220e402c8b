"""Builds NodeMetrics and PodMetrics from the usage that a kubelet reports. Pure."""

from collections.abc import Mapping
from datetime import datetime

from kilonova.api.gpu import metrics as gpu_metrics
from kilonova.api.json import JsonObject
from kilonova.api.quantity import Format, Quantity
from kilonova.api.times import format_rfc3339
from kilonova.local.apiserver.metrics_api.kinds import GROUP, VERSION
from kilonova.local.kubelet_api import NodeUsage, PodUsage

_NANO = 10**9


def node_metrics(
    name: str, labels: Mapping[str, str], usage: NodeUsage, now: datetime
) -> JsonObject:
    """The NodeMetrics of a node."""
    metadata = _metadata(name, "", labels, now)
    if usage.gpus:
        metadata["annotations"] = {gpu_metrics.ANNOTATION: gpu_metrics.format_readings(usage.gpus)}
    return {
        "kind": "NodeMetrics",
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": metadata,
        **_sample_interval(usage),
        "usage": _usage_quantities(usage.cpu_nanocores, usage.memory_bytes),
    }


def pod_metrics(
    pod: PodUsage, labels: Mapping[str, str], usage: NodeUsage, now: datetime
) -> JsonObject:
    """The PodMetrics of a pod, container by container."""
    return {
        "kind": "PodMetrics",
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": _metadata(pod.name, pod.namespace, labels, now),
        **_sample_interval(usage),
        "containers": [
            {"name": each.name, "usage": _usage_quantities(each.cpu_nanocores, each.memory_bytes)}
            for each in pod.containers
        ],
    }


def format_window(seconds: float) -> str:
    """A duration in Go's format, in milliseconds: `15.06s`, `1m0s`."""
    minutes, rest = divmod(round(seconds, 3), 60)
    text = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if minutes < 60:
        return f"{int(minutes)}m{text}" if minutes else text
    return f"{int(minutes) // 60}h{int(minutes) % 60}m{text}"


def _metadata(name: str, namespace: str, labels: Mapping[str, str], now: datetime) -> JsonObject:
    metadata: JsonObject = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["creationTimestamp"] = format_rfc3339(now)
    if labels:
        metadata["labels"] = dict(labels)
    return metadata


def _sample_interval(usage: NodeUsage) -> JsonObject:
    return {"timestamp": format_rfc3339(usage.time), "window": format_window(usage.window)}


def _usage_quantities(cpu_nanocores: int, memory_bytes: int) -> JsonObject:
    return {
        "cpu": str(Quantity(cpu_nanocores)),
        "memory": str(Quantity(memory_bytes * _NANO, Format.BINARY)),
    }
