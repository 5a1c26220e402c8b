"""Nodes as rows. Pure."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from kilonova.api.gpu.annotations import InvalidAnnotation, Topology, parse_topology
from kilonova.api.meta import Condition
from kilonova.catalog import NodePrice, PricedNode, load_catalog
from kilonova.catalog.prices import parse_market, parse_price
from kilonova.catalog.resource_names import GPU
from kilonova.component.console.values import parse_quantity, parse_timestamp
from kilonova.console.objects import Node, NodeMetrics
from kilonova.console.objects.nodes import NodeMeta
from kilonova.console.rows.model import NodeRow, UsageRow

_NO_TOPOLOGY = Topology(())

_MAX_GPUS = 1024
"""Each GPU is drawn: larger capacities are taken for errors of the device plugin."""


def node_row(node: Node) -> NodeRow:
    """The row of a node."""
    metadata, status = node.metadata, node.status
    labels, annotations = metadata.labels, metadata.annotations
    topology = _parse_topology(annotations.topology)
    lost = {index: gpu.reason for index, gpu in enumerate(topology.gpus) if not gpu.healthy}
    product = labels.product or topology.product
    ready = next((each for each in status.conditions if each.type == "Ready"), None)
    gpus = max(min(int(parse_quantity(status.capacity.get(GPU))), _MAX_GPUS), len(topology.gpus))
    gpu_memory = topology.memory or _parse_int(labels.memory)
    price = _price_node(metadata, product, gpu_memory, gpus)
    return NodeRow(
        id=metadata.name,
        zone=labels.zone,
        block=labels.block,
        rack=labels.rack,
        kind=labels.kind,
        product=product,
        nvlink_domain=labels.clique,
        fabric=_fabric_name(topology),
        gpus=gpus,
        gpu_memory=gpu_memory,
        gpu_sms=topology.sms,
        mig=bool(topology.mig),
        devices=topology.gpus,
        lost=tuple(lost),
        ready=ready is not None and ready.status == "True",
        unknown=ready is None or ready.status == "Unknown",
        cordoned=node.spec.unschedulable,
        problem="; ".join(_find_problems(status.conditions, lost)),
        taints=tuple(
            f"{each.key}={each.value}:{each.effect}" if each.value else f"{each.key}:{each.effect}"
            for each in node.spec.taints
        ),
        cpu=parse_quantity(status.allocatable.get("cpu")),
        memory=int(parse_quantity(status.allocatable.get("memory"))),
        max_pods=int(parse_quantity(status.allocatable.get("pods"))),
        machine=labels.machine,
        price=price.gpu,
        node_price=price.node,
        created=parse_timestamp(metadata.creation_timestamp),
    )


def usage_row(metrics: NodeMetrics, node: Node | None) -> UsageRow:
    """Usage as shares of allocatable resources; 0 for a node that does not exist."""
    allocatable = {} if node is None else node.status.allocatable
    shares = {
        name: parse_quantity(metrics.usage.get(name)) / total
        if (total := parse_quantity(allocatable.get(name)))
        else 0.0
        for name in ("cpu", "memory")
    }
    return UsageRow(
        id=metrics.metadata.name, cpu=round(shares["cpu"], 3), memory=round(shares["memory"], 3)
    )


def _price_node(metadata: NodeMeta, product: str, gpu_memory: int, gpus: int) -> NodePrice:
    """By its annotations or labels, else by the catalog."""
    labels, annotations = metadata.labels, metadata.annotations
    stated_gpu = parse_price(annotations.gpu_price), parse_price(labels.gpu_price)
    stated_node = parse_price(annotations.node_price), parse_price(labels.node_price)
    catalog = load_catalog()
    model = catalog.find_gpu(product, gpu_memory) if product else None
    return catalog.price_node(
        PricedNode(
            labels.machine,
            parse_market(labels.capacity_type),
            "" if model is None else model.name,
            gpus,
            stated_gpu=next((each for each in stated_gpu if each is not None), None),
            stated_node=next((each for each in stated_node if each is not None), None),
        )
    )


@lru_cache(maxsize=1024)
def _parse_topology(text: str) -> Topology:
    found = parse_topology(text) if text else _NO_TOPOLOGY
    return _NO_TOPOLOGY if isinstance(found, InvalidAnnotation) else found


def _fabric_name(topology: Topology) -> str:
    if topology.port or any(each.port for each in topology.gpus):
        return "NVSwitch"
    return "NVLink" if topology.links else ""


def _find_problems(conditions: tuple[Condition, ...], lost: Mapping[int, str]) -> Iterator[str]:
    """What is wrong with a node; `lost` are its unhealthy GPUs, with the reason."""
    ready = next((each for each in conditions if each.type == "Ready"), None)
    if ready is None:
        yield "the kubelet has not reported a Ready condition"
    elif ready.status != "True":
        yield ready.message or ready.reason or "not ready"
    for each in conditions:
        if each.type != "Ready" and _is_problem(each):
            yield f"{each.type}: {each.message}" if each.message else each.type
    if lost:
        indices = ", ".join(map(str, lost))
        yield f"GPU {indices} is lost" if len(lost) == 1 else f"GPUs {indices} are lost"
    told = " ".join(each.message for each in conditions)
    yield from sorted({reason for reason in lost.values() if reason and reason not in told})


def _is_problem(condition: Condition) -> bool:
    """A condition such as MemoryPressure is a problem when True, one named …Ready or …Healthy
    when it is not."""
    if condition.type.endswith(("Ready", "Healthy")):
        return condition.status != "True"
    return condition.status == "True"


def _parse_int(text: str) -> int:
    return int(text) if text.isdecimal() else 0
