"""NodeMetrics and PodMetrics, made of what a node measured. Pure."""

from collections.abc import Mapping
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Format, Quantity
from kilonova.api.times import rfc3339
from kilonova.local.kubelets import NodeUsage, PodUsage
from kilonova.local.metricsapi.kinds import GROUP, VERSION

_NANO = 10**9


def node_metrics(
    name: str, labels: Mapping[str, str], usage: NodeUsage, now: datetime
) -> JsonObject:
    """What a node uses."""
    return {
        "kind": "NodeMetrics",
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": _metadata(name, "", labels, now),
        **_interval(usage),
        "usage": _usage(usage.cpu_nanocores, usage.memory_bytes),
    }


def pod_metrics(
    pod: PodUsage, labels: Mapping[str, str], usage: NodeUsage, now: datetime
) -> JsonObject:
    """What a pod uses, container by container."""
    return {
        "kind": "PodMetrics",
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": _metadata(pod.name, pod.namespace, labels, now),
        **_interval(usage),
        "containers": [
            {"name": each.name, "usage": _usage(each.cpu_nanocores, each.memory_bytes)}
            for each in pod.containers
        ],
    }


def window_text(seconds: float) -> str:
    """A length of time as Go writes it, to the millisecond: `15.06s`, `1m0s`."""
    minutes, rest = divmod(round(seconds, 3), 60)
    text = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if minutes < 60:
        return f"{int(minutes)}m{text}" if minutes else text
    return f"{int(minutes) // 60}h{int(minutes) % 60}m{text}"


def _metadata(name: str, namespace: str, labels: Mapping[str, str], now: datetime) -> JsonObject:
    metadata: JsonObject = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["creationTimestamp"] = rfc3339(now)
    if labels:
        metadata["labels"] = dict(labels)
    return metadata


def _interval(usage: NodeUsage) -> JsonObject:
    return {"timestamp": rfc3339(usage.time), "window": window_text(usage.window)}


def _usage(cpu_nanocores: int, memory_bytes: int) -> JsonObject:
    return {
        "cpu": str(Quantity(cpu_nanocores)),
        "memory": str(Quantity(memory_bytes * _NANO, Format.BINARY)),
    }
