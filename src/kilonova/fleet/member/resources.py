"""The API resources that the agent reads and writes, with the fields that it uses."""

from typing import Any

import msgspec

from kilonova.api.inference_engine import (
    GROUP,
    VERSION,
    InferenceEngineDeployment,
    InstancePhase,
)
from kilonova.api.meta import Metadata
from kilonova.kube import Resource

Amount = str | int | float


class InstanceSpec(msgspec.Struct, frozen=True, gc=False):
    """The release of an instance."""

    release: str = ""


class InstanceStatus(msgspec.Struct, frozen=True, gc=False):
    """The phase of an instance."""

    phase: InstancePhase = "Pending"


class Instance(msgspec.Struct, gc=False):
    """An InferenceEngineInstance."""

    metadata: Metadata
    spec: InstanceSpec = InstanceSpec()
    status: InstanceStatus = InstanceStatus()


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """Whether a node takes pods."""

    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """What a node offers."""

    allocatable: dict[str, Amount] = {}


class Node(msgspec.Struct, gc=False):
    """A node with its resources."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ContainerResources(msgspec.Struct, frozen=True, gc=False):
    """What a container requests; of extended resources, requests equal limits."""

    requests: dict[str, Amount] = {}
    limits: dict[str, Amount] = {}


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container."""

    resources: ContainerResources = ContainerResources()
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod requests, and where."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class PodStatus(msgspec.Struct, frozen=True, gc=False):
    """Whether a pod has ended."""

    phase: str = ""


class Pod(msgspec.Struct, gc=False):
    """A pod with its requests."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


DEPLOYMENTS = Resource(
    GROUP,
    VERSION,
    "inferenceenginedeployments",
    "InferenceEngineDeployment",
    True,
    InferenceEngineDeployment,
)
INSTANCES = Resource(
    GROUP, VERSION, "inferenceengineinstances", "InferenceEngineInstance", True, Instance
)
NODES = Resource("", "v1", "nodes", "Node", False, Node)
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
NAMESPACES: Resource[dict[str, Any]] = Resource("", "v1", "namespaces", "Namespace", False, dict)
