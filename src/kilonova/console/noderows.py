"""Nodes as rows. Pure."""

from collections.abc import Iterator
from functools import lru_cache

from kilonova.api.gpus import Topology, Unreadable, read_topology
from kilonova.api.meta import Condition
from kilonova.console.amounts import amount
from kilonova.console.objects import Node, NodeMetrics
from kilonova.console.prices import list_price, stated_price
from kilonova.console.rows import NodeRow, UsageRow, moment

GPU = "nvidia.com/gpu"
_NONE = Topology(())

_MOST_GPUS = 1024
"""Each GPU of a node is drawn: more are none, but an error of whoever counts them."""


def node_row(node: Node) -> NodeRow:
    """A node as it is shown."""
    metadata, status = node.metadata, node.status
    labels, annotations = metadata.labels, metadata.annotations
    topology = _topology(annotations.topology)
    lost = tuple(index for index, gpu in enumerate(topology.gpus) if not gpu.healthy)
    product = labels.product or topology.product
    told = next((each for each in status.conditions if each.type == "Ready"), None)
    prices = (stated_price(annotations.price), stated_price(labels.price), list_price(product))
    return NodeRow(
        id=metadata.name,
        zone=labels.zone,
        block=labels.block,
        rack=labels.rack,
        kind=labels.kind,
        product=product,
        clique=labels.clique,
        fabric=_fabric(topology),
        gpus=max(min(int(amount(status.capacity.get(GPU))), _MOST_GPUS), len(topology.gpus)),
        memory=topology.memory or _number(labels.memory),
        lost=lost,
        ready=told is not None and told.status == "True",
        unknown=told is None or told.status == "Unknown",
        cordoned=node.spec.unschedulable,
        problem="; ".join(_problems(status.conditions, lost)),
        taints=tuple(
            f"{each.key}={each.value}:{each.effect}" if each.value else f"{each.key}:{each.effect}"
            for each in node.spec.taints
        ),
        cpu=amount(status.allocatable.get("cpu")),
        ram=int(amount(status.allocatable.get("memory"))),
        max_pods=int(amount(status.allocatable.get("pods"))),
        price=next((each for each in prices if each is not None), None),
        created=moment(metadata.creation_timestamp),
    )


def usage_row(metrics: NodeMetrics, node: Node | None) -> UsageRow:
    """What a node uses of what it has; nothing of a node that is not known (any more)."""
    room = {} if node is None else node.status.allocatable
    shares = {
        name: amount(metrics.usage.get(name)) / total if (total := amount(room.get(name))) else 0.0
        for name in ("cpu", "memory")
    }
    return UsageRow(
        id=metrics.metadata.name, cpu=round(shares["cpu"], 3), memory=round(shares["memory"], 3)
    )


@lru_cache(maxsize=1024)
def _topology(text: str) -> Topology:
    found = read_topology(text) if text else _NONE
    return _NONE if isinstance(found, Unreadable) else found


def _fabric(topology: Topology) -> str:
    if topology.port or any(each.port for each in topology.gpus):
        return "NVSwitch"
    return "NVLink" if topology.links else ""


def _problems(conditions: tuple[Condition, ...], lost: tuple[int, ...]) -> Iterator[str]:
    ready = next((each for each in conditions if each.type == "Ready"), None)
    if ready is None:
        yield "its kubelet has not said that it is ready"
    elif ready.status != "True":
        yield ready.message or ready.reason or "not ready"
    for each in conditions:
        # Pressures are well when not true; what others add and call …Ready, when not false.
        bad = "False" if each.type.endswith("Ready") else "True"
        if each.type != "Ready" and each.status == bad:
            yield f"{each.type}: {each.message}" if each.message else each.type
    if lost:
        few = ", ".join(map(str, lost))
        yield f"GPU {few} is lost" if len(lost) == 1 else f"GPUs {few} are lost"


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
