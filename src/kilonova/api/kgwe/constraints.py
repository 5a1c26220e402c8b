"""Where the pods of a GPUWorkload may be placed."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.scheduling import Duration, Name, Toleration
from kilonova.api.validation_rules import ValidationRule


class NodeSelectorRequirement(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True
):
    """A requirement on one label of a node."""

    key: Annotated[str, Meta(min_length=1, max_length=317)]
    """The key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the values are compared."""
    values: Annotated[tuple[str, ...], Meta(max_length=256)] = ()
    """The values; none with Exists and DoesNotExist, one integer with Gt and Lt."""


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Requirements that must all hold."""

    match_expressions: Annotated[
        tuple[NodeSelectorRequirement, ...], Meta(min_length=1, max_length=32)
    ]


class WeightedNodeSelectorTerm(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True
):
    """Preferred nodes."""

    weight: Annotated[int, Meta(ge=1, le=100, extra={"format": "int32"})]
    """How much they are preferred."""
    selector: NodeSelectorTerm
    """Which nodes these are."""


class NodeAffinity(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Nodes by their labels."""

    required: Annotated[tuple[NodeSelectorTerm, ...], Meta(max_length=32)] = msgspec.field(
        name="requiredDuringScheduling", default=()
    )
    """Nodes must meet at least one of these terms."""
    preferred: Annotated[tuple[WeightedNodeSelectorTerm, ...], Meta(max_length=32)] = msgspec.field(
        name="preferredDuringScheduling", default=()
    )
    """Nodes that meet these terms are preferred."""


class WorkloadReference(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod, or all pods of a GPUWorkload."""

    name: Name
    """The name of the pod or GPUWorkload."""
    namespace: Annotated[str, Meta(max_length=63)] = ""
    """Its namespace. Defaults to that of the workload."""
    kind: Annotated[Literal["Pod", "GPUWorkload"], Meta(extra={"default": "Pod"})] = "Pod"
    """Whether a pod is meant, or a GPUWorkload."""


class SchedulingConstraints(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True
):
    """Constraints on nodes, in addition to those of the pod template."""

    RULES: ClassVar = (
        ValidationRule(
            "!has(self.nodeAffinity) || !has(self.nodeAffinity.requiredDuringScheduling)"
            " || self.nodeAffinity.requiredDuringScheduling.all(term,"
            " term.matchExpressions.all(each, (each.operator in ['Exists', 'DoesNotExist'])"
            " == (!has(each.values) || each.values.size() == 0)))",
            "values are needed with In, NotIn, Gt and Lt, and not allowed with Exists and"
            " DoesNotExist",
            field_path=".nodeAffinity",
        ),
    )

    node_selector: Annotated[dict[str, str], Meta(max_length=64)] = {}
    """Labels that nodes must have."""
    node_affinity: NodeAffinity | None = None
    tolerations: Annotated[tuple[Toleration, ...], Meta(max_length=64)] = ()
    """Taints of nodes that are tolerated."""
    exclude_nodes: Annotated[tuple[Name, ...], Meta(max_length=256)] = ()
    """Names of nodes that are never used."""
    colocate_with: Annotated[tuple[WorkloadReference, ...], Meta(max_length=16)] = ()
    """Pods whose nodes are required: each pod of the workload is placed on the node of one."""
    anti_affinity: Annotated[tuple[WorkloadReference, ...], Meta(max_length=16)] = ()
    """Pods whose nodes are never used."""
    max_scheduling_latency: Duration | None = None
    """How long the workload may wait for its nodes; after that it fails, with the reason
    SchedulingLatencyExceeded. Without it, it waits."""
