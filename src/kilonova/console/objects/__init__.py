"""API objects decoded to the fields that the console shows.

To save memory on clusters with many pods, labels and annotations are decoded to the keys that are
used, and values that are equal in many objects are interned.
"""

from kilonova.console.objects.controllers import (
    DEPLOYMENTS,
    JOBS,
    STATEFUL_SETS,
    Job,
    ReplicatedWorkload,
    WorkloadMeta,
)
from kilonova.console.objects.events import EVENTS, Event
from kilonova.console.objects.grove import CLIQUES, GANGS, SETS, PodClique, PodCliqueSet
from kilonova.console.objects.kgwe import GPU_WORKLOADS, GpuWorkload
from kilonova.console.objects.nodes import METRICS, NODES, Node, NodeMetrics
from kilonova.console.objects.pods import (
    PODS,
    Container,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodLabels,
    PodMeta,
    PodSpec,
)

__all__ = [
    "CLIQUES",
    "DEPLOYMENTS",
    "EVENTS",
    "GANGS",
    "GPU_WORKLOADS",
    "JOBS",
    "METRICS",
    "NODES",
    "PODS",
    "SETS",
    "STATEFUL_SETS",
    "Container",
    "ContainerStateTerminated",
    "ContainerStatus",
    "Event",
    "GpuWorkload",
    "Job",
    "Node",
    "NodeMetrics",
    "Pod",
    "PodClique",
    "PodCliqueSet",
    "PodLabels",
    "PodMeta",
    "PodSpec",
    "ReplicatedWorkload",
    "WorkloadMeta",
]
