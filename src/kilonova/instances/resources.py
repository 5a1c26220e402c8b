"""The API resources that the controllers read and write, with the fields that they use."""

from typing import Any

import msgspec

from kilonova.api import grove
from kilonova.api.inference_engine import (
    GROUP,
    VERSION,
    InferenceEngineDeployment,
    InferenceEngineInstance,
    Release,
)
from kilonova.api.meta import Condition, Metadata
from kilonova.kube import Resource
from kilonova.kube.controllers.controller_revisions import CONTROLLER_REVISIONS, ControllerRevision
from kilonova.scheduler.objects.core_v1 import GANGS, RESERVATIONS

__all__ = [
    "CONTROLLER_REVISIONS",
    "DEPLOYMENTS",
    "GANGS",
    "INSTANCES",
    "NODES",
    "PODS",
    "RELEASES",
    "RESERVATIONS",
    "SERVICES",
    "TOPOLOGY_BINDINGS",
    "ChildObject",
    "ContainerStatus",
    "ControllerRevision",
    "Node",
    "NodeSpec",
    "NodeStatus",
    "Pod",
    "PodSpec",
    "PodStatus",
    "SchedulingGate",
    "Taint",
    "Toleration",
]


class ChildObject(msgspec.Struct, gc=False):
    """An object that is only compared with what it should be."""

    metadata: Metadata
    spec: dict[str, Any] = {}


class SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    """A scheduling gate of a pod."""

    name: str


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """A toleration of taints."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a pod."""

    node_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a container."""

    ready: bool = False
    restart_count: int = 0


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, gc=False):
    """A pod of an agent or a conductor."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of a node."""

    conditions: tuple[Condition, ...] = ()


class Node(msgspec.Struct, gc=False):
    """A node: where it is, and whether pods can run on it."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


INSTANCES = Resource(
    GROUP,
    VERSION,
    "inferenceengineinstances",
    "InferenceEngineInstance",
    True,
    InferenceEngineInstance,
)
DEPLOYMENTS = Resource(
    GROUP,
    VERSION,
    "inferenceenginedeployments",
    "InferenceEngineDeployment",
    True,
    InferenceEngineDeployment,
)
RELEASES = Resource(GROUP, VERSION, "releases", "Release", True, Release)
TOPOLOGY_BINDINGS = Resource(
    grove.GROUP,
    grove.VERSION,
    "clustertopologybindings",
    "ClusterTopologyBinding",
    False,
    grove.ClusterTopologyBinding,
)
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
NODES = Resource("", "v1", "nodes", "Node", False, Node)
SERVICES = Resource("", "v1", "services", "Service", True, ChildObject)
