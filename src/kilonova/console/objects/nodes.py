"""Nodes and their metrics."""

import msgspec
from msgspec.structs import force_setattr

from kilonova.api.gpu import annotations as gpu_annotations
from kilonova.api.gpu import metrics as gpu_metrics
from kilonova.api.meta import Condition, intern_value
from kilonova.catalog.gpu_features import MEMORY, NVLINK_DOMAIN, PRODUCT
from kilonova.catalog.prices import GPU_PRICE_KEY, NODE_PRICE_KEY
from kilonova.console.objects.metadata import ObjectMeta, Quantities
from kilonova.kube import Resource


class NodeLabels(msgspec.Struct, frozen=True, gc=False):
    """Topology, GPU and machine labels."""

    zone: str = msgspec.field(default="", name="topology.kubernetes.io/zone")
    block: str = msgspec.field(default="", name="kilonova.dev/block")
    rack: str = msgspec.field(default="", name="kilonova.dev/rack")
    kind: str = msgspec.field(default="", name="kilonova.dev/node-kind")
    product: str = msgspec.field(default="", name=PRODUCT)
    memory: str = msgspec.field(default="", name=MEMORY)
    clique: str = msgspec.field(default="", name=NVLINK_DOMAIN)
    machine: str = msgspec.field(default="", name="node.kubernetes.io/instance-type")
    capacity_type: str = msgspec.field(default="", name="karpenter.sh/capacity-type")
    gpu_price: str = msgspec.field(default="", name=GPU_PRICE_KEY)
    node_price: str = msgspec.field(default="", name=NODE_PRICE_KEY)


class NodeAnnotations(msgspec.Struct, frozen=True, gc=False):
    """GPU and price annotations."""

    topology: str = msgspec.field(default="", name=gpu_annotations.TOPOLOGY)
    gpu_price: str = msgspec.field(default="", name=GPU_PRICE_KEY)
    node_price: str = msgspec.field(default="", name=NODE_PRICE_KEY)

    def __post_init__(self) -> None:
        force_setattr(self, "topology", intern_value(self.topology))


class NodeMeta(ObjectMeta, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of a node."""

    labels: NodeLabels = NodeLabels()
    annotations: NodeAnnotations = NodeAnnotations()


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """Spec of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """Status of a node."""

    capacity: Quantities = {}
    allocatable: Quantities = {}
    conditions: tuple[Condition, ...] = ()


class Node(msgspec.Struct, gc=False):
    """A node."""

    metadata: NodeMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class MetricsAnnotations(msgspec.Struct, frozen=True, gc=False):
    """Metrics of the node's GPUs."""

    gpus: str = msgspec.field(default="", name=gpu_metrics.ANNOTATION)


class MetricsMeta(ObjectMeta, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of metrics."""

    annotations: MetricsAnnotations = MetricsAnnotations()


class NodeMetrics(msgspec.Struct, gc=False):
    """Resource usage of a node."""

    metadata: MetricsMeta
    usage: Quantities = {}


NODES = Resource("", "v1", "nodes", "Node", False, Node)
METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, NodeMetrics)
