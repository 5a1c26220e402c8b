"""The caches of all that has to do with storage."""

from dataclasses import dataclass
from typing import Any

from kilonova.kube import Client, Instruments, Reflector, Store
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.shelves import Shelves
from kilonova.scheduler.storage import (
    CSI_NODES,
    STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    STORAGE_DRIVERS,
    VOLUME_CLAIMS,
    VOLUMES,
    CsiNode,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    VolumeClaim,
)


@dataclass(frozen=True, slots=True)
class Storage:
    """What a scheduler knows of storage. Small servers know nothing of drivers, and do without."""

    claims: Reflector[VolumeClaim]
    volumes: Reflector[PersistentVolume]
    classes: Reflector[StorageClass]
    drivers: Reflector[StorageDriver]
    left: Reflector[StorageCapacity]
    csi_nodes: Reflector[CsiNode]

    @staticmethod
    def over(client: Client, instruments: Instruments) -> "Storage":
        """The caches over a client."""
        return Storage(
            Reflector(client, VOLUME_CLAIMS, optional=True, instruments=instruments),
            Reflector(client, VOLUMES, optional=True, instruments=instruments),
            Reflector(client, STORAGE_CLASSES, optional=True, instruments=instruments),
            Reflector(client, STORAGE_DRIVERS, optional=True, instruments=instruments),
            Reflector(client, STORAGE_CAPACITIES, optional=True, instruments=instruments),
            Reflector(client, CSI_NODES, optional=True, instruments=instruments),
        )

    @property
    def all(self) -> "list[Reflector[Any]]":
        """All of them; who refers to others comes after them."""
        return [
            self.classes,
            self.drivers,
            self.left,
            self.csi_nodes,
            self.volumes,
            self.claims,
        ]

    def shelves(self, pods: Store[Pod]) -> Shelves:
        """What they hold, found by what refers to it."""
        return Shelves(
            self.claims.store,
            self.volumes.store,
            self.classes.store,
            self.drivers.store,
            self.left.store,
            self.csi_nodes.store,
            pods,
        )
