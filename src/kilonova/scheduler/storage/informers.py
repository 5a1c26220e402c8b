"""The informers of storage objects."""

from dataclasses import dataclass
from typing import Any

from kilonova.kube import Client, Reflector, RuntimeMetrics, Store
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.storage_v1 import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kilonova.scheduler.storage.index import StorageIndex


@dataclass(frozen=True, slots=True)
class StorageInformers:
    """The informers of storage objects; a kind that the API server does not serve stays empty."""

    claims: Reflector[PersistentVolumeClaim]
    volumes: Reflector[PersistentVolume]
    classes: Reflector[StorageClass]
    drivers: Reflector[CsiDriver]
    storage_capacities: Reflector[CsiStorageCapacity]
    csi_nodes: Reflector[CsiNode]

    @staticmethod
    def from_client(client: Client, runtime_metrics: RuntimeMetrics) -> "StorageInformers":
        """The informers over a client."""
        return StorageInformers(
            Reflector(
                client, PERSISTENT_VOLUME_CLAIMS, optional=True, runtime_metrics=runtime_metrics
            ),
            Reflector(client, PERSISTENT_VOLUMES, optional=True, runtime_metrics=runtime_metrics),
            Reflector(client, STORAGE_CLASSES, optional=True, runtime_metrics=runtime_metrics),
            Reflector(client, CSI_DRIVERS, optional=True, runtime_metrics=runtime_metrics),
            Reflector(
                client, CSI_STORAGE_CAPACITIES, optional=True, runtime_metrics=runtime_metrics
            ),
            Reflector(client, CSI_NODES, optional=True, runtime_metrics=runtime_metrics),
        )

    @property
    def all(self) -> "list[Reflector[Any]]":
        """All informers; a kind that refers to others comes after them."""
        return [
            self.classes,
            self.drivers,
            self.storage_capacities,
            self.csi_nodes,
            self.volumes,
            self.claims,
        ]

    def build_index(self, pods: Store[Pod]) -> StorageIndex:
        """The index over the informers' stores."""
        return StorageIndex(
            self.claims.store,
            self.volumes.store,
            self.classes.store,
            self.drivers.store,
            self.storage_capacities.store,
            self.csi_nodes.store,
            pods,
        )
