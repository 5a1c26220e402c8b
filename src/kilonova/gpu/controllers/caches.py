"""The informer caches of the controllers."""

from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.api.grove import names as grove_names
from kilonova.api.kgwe import GPUWorkload, MIGStrategy, names
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.gpu.controllers import resources
from kilonova.gpu.controllers.resources import ChildObject
from kilonova.kube import NO_RUNTIME_METRICS, Client, Key, Reflector, Runnable, RuntimeMetrics
from kilonova.scheduler.objects.core_v1 import Node, Pod

BY_WORKLOAD = "workload"
"""By the key of the GPUWorkload that an object is labelled with."""
BY_NODE = "node"
"""Pods of GPUWorkloads by the name of their node."""

_MANAGED = f"{grove_names.MANAGED_BY}={names.MANAGER}"


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches. Run `runnables` before any controller."""

    workloads: Reflector[GPUWorkload]
    strategies: Reflector[MIGStrategy]
    pods: Reflector[Pod]
    gangs: Reflector[PodGang]
    services: Reflector[ChildObject]
    nodes: Reflector[Node]

    @property
    def runnables(self) -> list[Runnable]:
        """All caches."""
        return [
            self.workloads,
            self.strategies,
            self.pods,
            self.gangs,
            self.services,
            self.nodes,
        ]


def build_caches(client: Client, runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS) -> Caches:
    """Build the caches over a client, with the indexes that controllers use."""
    return Caches(
        workloads=Reflector(client, resources.WORKLOADS, runtime_metrics=runtime_metrics),
        strategies=Reflector(client, resources.MIG_STRATEGIES, runtime_metrics=runtime_metrics),
        pods=Reflector(
            client,
            resources.PODS,
            label_selector=_MANAGED,
            indexes={
                BY_WORKLOAD: lambda each: list_workload_keys(each.metadata),
                BY_NODE: _index_by_node,
            },
            runtime_metrics=runtime_metrics,
        ),
        gangs=Reflector(
            client, resources.GANGS, label_selector=_MANAGED, runtime_metrics=runtime_metrics
        ),
        services=Reflector(
            client, resources.SERVICES, label_selector=_MANAGED, runtime_metrics=runtime_metrics
        ),
        nodes=Reflector(client, resources.NODES, runtime_metrics=runtime_metrics),
    )


def list_workload_keys(metadata: Metadata) -> Iterator[Key]:
    """The key of the GPUWorkload that an object is labelled with."""
    name = metadata.labels.get(names.WORKLOAD)
    if name:
        yield metadata.namespace, name


def _index_by_node(pod: Pod) -> Iterator[str]:
    if pod.spec.node_name:
        yield pod.spec.node_name
