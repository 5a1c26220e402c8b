"""All informers of a scheduler, in the order in which their objects refer to each other."""

from dataclasses import dataclass
from typing import Any

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue, Reservation
from kilonova.kube import Client, Reflector, RuntimeMetrics
from kilonova.scheduler.cache.extensions.disruption_budgets import (
    DISRUPTION_BUDGETS,
    DisruptionBudget,
)
from kilonova.scheduler.cache.extensions.namespaces import NAMESPACES, Namespace
from kilonova.scheduler.objects.core_v1 import GANGS, NODES, PODS, QUEUES, RESERVATIONS, Node, Pod
from kilonova.scheduler.objects.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    CoschedulingPodGroup,
    KubernetesPodGroup,
)
from kilonova.scheduler.objects.resource_v1 import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from kilonova.scheduler.storage.informers import StorageInformers


@dataclass(frozen=True, slots=True)
class Informers:
    """The informers of a scheduler; an optional kind that the API server does not serve stays
    empty."""

    nodes: Reflector[Node]
    pods: Reflector[Pod]
    gangs: Reflector[PodGang]
    queues: Reflector[Queue]
    slices: Reflector[ResourceSlice]
    classes: Reflector[DeviceClass]
    claims: Reflector[ResourceClaim]
    budgets: Reflector[DisruptionBudget]
    storage: StorageInformers
    namespaces: Reflector[Namespace]
    coscheduling_pod_groups: Reflector[CoschedulingPodGroup]
    kubernetes_pod_groups: Reflector[KubernetesPodGroup]
    reservations: Reflector[Reservation]

    @staticmethod
    def from_client(client: Client, runtime_metrics: RuntimeMetrics) -> "Informers":
        """The informers over a client."""
        return Informers(
            Reflector(client, NODES, runtime_metrics=runtime_metrics),
            Reflector(client, PODS, runtime_metrics=runtime_metrics),
            Reflector(client, GANGS, runtime_metrics=runtime_metrics),
            Reflector(client, QUEUES, runtime_metrics=runtime_metrics),
            Reflector(client, RESOURCE_SLICES, runtime_metrics=runtime_metrics, optional=True),
            Reflector(client, DEVICE_CLASSES, runtime_metrics=runtime_metrics, optional=True),
            Reflector(client, RESOURCE_CLAIMS, runtime_metrics=runtime_metrics, optional=True),
            Reflector(client, DISRUPTION_BUDGETS, runtime_metrics=runtime_metrics),
            StorageInformers.from_client(client, runtime_metrics),
            Reflector(client, NAMESPACES, runtime_metrics=runtime_metrics),
            Reflector(
                client, COSCHEDULING_POD_GROUPS, runtime_metrics=runtime_metrics, optional=True
            ),
            Reflector(
                client, KUBERNETES_POD_GROUPS, runtime_metrics=runtime_metrics, optional=True
            ),
            Reflector(client, RESERVATIONS, runtime_metrics=runtime_metrics, optional=True),
        )

    @property
    def all(self) -> "list[Reflector[Any]]":
        """All informers; a kind that refers to others comes after them."""
        devices = [self.slices, self.classes, self.claims]
        before_pods = [*self.pod_group_informers, *devices, *self.storage.all, self.namespaces]
        after_pods = [self.budgets, self.reservations]
        return [self.nodes, self.queues, self.gangs, *before_pods, self.pods, *after_pods]

    @property
    def pod_group_informers(self) -> "list[Reflector[Any]]":
        """Informers of PodGroups, which other workload controllers create."""
        return [self.coscheduling_pod_groups, self.kubernetes_pod_groups]

    async def wait_for_sync(self) -> None:
        """Wait until every informer has synced."""
        for each in self.all:
            await each.wait_for_sync()
