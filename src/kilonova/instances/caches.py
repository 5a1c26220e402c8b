"""The informer caches of the controllers."""

from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.grove import names as grove_names
from kilonova.api.inference_engine import (
    InferenceEngineDeployment,
    InferenceEngineInstance,
    Release,
    names,
)
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Reservation
from kilonova.instances import resources
from kilonova.instances.allocation.strategies import HOST
from kilonova.instances.resources import ChildObject, ControllerRevision, Node, Pod
from kilonova.kube import NO_RUNTIME_METRICS, Client, Key, Reflector, Runnable, RuntimeMetrics
from kilonova.scheduler.library.topology_levels import select_bound_levels

BY_INSTANCE = "instance"
"""By the key of the InferenceEngineInstance that an object is labelled with."""
BY_DEPLOYMENT = "deployment"
"""Instances and revisions by the key of the InferenceEngineDeployment that they are labelled
with."""
BY_NODE = "node"
"""Pods by the name of their node."""

_MANAGED = f"{grove_names.MANAGED_BY}={names.MANAGER}"


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches. Run `runnables` before any controller."""

    instances: Reflector[InferenceEngineInstance]
    deployments: Reflector[InferenceEngineDeployment]
    releases: Reflector[Release]
    revisions: Reflector[ControllerRevision]
    pods: Reflector[Pod]
    gangs: Reflector[PodGang]
    reservations: Reflector[Reservation]
    services: Reflector[ChildObject]
    nodes: Reflector[Node]
    topologies: Reflector[ClusterTopologyBinding]

    @property
    def runnables(self) -> list[Runnable]:
        """All caches."""
        return [
            self.instances,
            self.deployments,
            self.releases,
            self.revisions,
            self.pods,
            self.gangs,
            self.reservations,
            self.services,
            self.nodes,
            self.topologies,
        ]


def build_caches(client: Client, runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS) -> Caches:
    """Build the caches over a client, with the indexes that controllers use."""
    return Caches(
        instances=Reflector(
            client,
            resources.INSTANCES,
            indexes={BY_DEPLOYMENT: lambda each: list_deployment_keys(each.metadata)},
            runtime_metrics=runtime_metrics,
        ),
        deployments=Reflector(client, resources.DEPLOYMENTS, runtime_metrics=runtime_metrics),
        releases=Reflector(client, resources.RELEASES, runtime_metrics=runtime_metrics),
        revisions=Reflector(
            client,
            resources.CONTROLLER_REVISIONS,
            label_selector=_MANAGED,
            indexes={BY_DEPLOYMENT: lambda each: list_deployment_keys(each.metadata)},
            runtime_metrics=runtime_metrics,
        ),
        pods=Reflector(
            client,
            resources.PODS,
            label_selector=_MANAGED,
            indexes={
                BY_INSTANCE: lambda each: list_instance_keys(each.metadata),
                BY_NODE: _index_by_node,
            },
            runtime_metrics=runtime_metrics,
        ),
        gangs=Reflector(
            client,
            resources.GANGS,
            label_selector=_MANAGED,
            indexes={BY_INSTANCE: lambda each: list_instance_keys(each.metadata)},
            runtime_metrics=runtime_metrics,
        ),
        reservations=Reflector(
            client,
            resources.RESERVATIONS,
            label_selector=_MANAGED,
            indexes={BY_INSTANCE: lambda each: list_instance_keys(each.metadata)},
            runtime_metrics=runtime_metrics,
        ),
        services=Reflector(
            client,
            resources.SERVICES,
            label_selector=_MANAGED,
            indexes={BY_INSTANCE: lambda each: list_instance_keys(each.metadata)},
            runtime_metrics=runtime_metrics,
        ),
        nodes=Reflector(client, resources.NODES, runtime_metrics=runtime_metrics),
        topologies=Reflector(client, resources.TOPOLOGY_BINDINGS, runtime_metrics=runtime_metrics),
    )


def list_instance_keys(metadata: Metadata) -> Iterator[Key]:
    """The key of the instance that an object is labelled with."""
    name = metadata.labels.get(names.MODEL_INSTANCE)
    if name:
        yield metadata.namespace, name


def list_deployment_keys(metadata: Metadata) -> Iterator[Key]:
    """The key of the deployment that an object is labelled with."""
    name = metadata.labels.get(names.DEPLOYMENT)
    if name:
        yield metadata.namespace, name


def list_levels(caches: Caches, default: tuple[str, ...]) -> tuple[str, ...]:
    """The levels above nodes of the cluster's ClusterTopologyBinding, if there is one; broadest
    first."""
    bound = select_bound_levels(caches.topologies.store.objects())
    return tuple(each for each in bound or default if each != HOST)


def _index_by_node(pod: Pod) -> Iterator[str]:
    if pod.spec.node_name:
        yield pod.spec.node_name
