"""PersistentVolumeClaims and volumes as the informers show them, with indexes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from kilonova.kube import Store
from kilonova.scheduler.convert.storage.volumes import NodeSelection, VolumePrebinding
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.keys import split_key
from kilonova.scheduler.objects.storage_v1 import (
    SELECTED_NODE,
    ClaimReference,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

_BY_CLASS = "storage class"
_BY_NODE = "selected node"
_BY_CLAIM = "volume claim"


@dataclass(frozen=True, slots=True)
class StorageIndex:
    """All storage objects; a `convert.storage.volumes.StorageLister`."""

    claims: Store[PersistentVolumeClaim]
    volumes: Store[PersistentVolume]
    classes: Store[StorageClass]
    drivers: Store[CsiDriver]
    storage_capacities: Store[CsiStorageCapacity]
    csi_nodes: Store[CsiNode]
    pods: Store[Pod]
    _assumed_volumes: dict[str, ClaimReference] = field(
        init=False, default_factory=dict[str, ClaimReference]
    )
    """Volumes assumed for claims; the informer may not show it yet."""

    def __post_init__(self) -> None:
        self.volumes.add_event_handler(self._volume_changed)
        self.claims.add_index(
            _BY_CLASS, lambda each: () if each.is_bound else _storage_class_of(each)
        )
        self.claims.add_index(_BY_NODE, _selected_node)
        self.volumes.add_index(_BY_CLASS, _storage_class_of)
        self.storage_capacities.add_index(_BY_CLASS, lambda each: [each.storage_class_name])
        self.pods.add_index(_BY_CLAIM, volume_claim_keys)

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self.claims.get((namespace, name))

    def volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.get(("", name))

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(("", name))

    def volumes_of(self, storage_class: str) -> Iterable[PersistentVolume]:
        volumes = self.volumes.by_index(_BY_CLASS, storage_class)
        return map(self._with_assumed_claim, volumes) if self._assumed_volumes else volumes

    def assume_volume(self, action: NodeSelection | VolumePrebinding) -> None:
        """Count a volume as bound before it is written."""
        if isinstance(action, VolumePrebinding):
            self._assumed_volumes[action.volume] = ClaimReference(*split_key(action.claim))

    def forget_assumed_volume(self, action: NodeSelection | VolumePrebinding) -> None:
        """A volume was not bound after all."""
        if isinstance(action, VolumePrebinding):
            self._assumed_volumes.pop(action.volume, None)

    def capacities(self, storage_class: StorageClass) -> Iterable[CsiStorageCapacity] | None:
        driver = self.drivers.get(("", storage_class.provisioner))
        if driver is None or not driver.spec.storage_capacity:
            return None
        return self.storage_capacities.by_index(_BY_CLASS, storage_class.metadata.name)

    def pods_of(self, claim: str) -> list[str]:
        """The pods that use a claim, NAMESPACE/NAME."""
        return [pod.key for pod in self.pods.by_index(_BY_CLAIM, claim)]

    def pods_waiting_for_class(self, storage_class: str) -> list[str]:
        """The pods with unbound claims of a StorageClass."""
        claims = self.claims.by_index(_BY_CLASS, storage_class)
        return [pod for claim in claims for pod in self.pods_of(claim.key)]

    def pods_with_selected_node(self, node: str) -> list[str]:
        """The pods with claims whose selected node is this one."""
        claims = self.claims.by_index(_BY_NODE, node)
        return [pod for claim in claims for pod in self.pods_of(claim.key)]

    def _with_assumed_claim(self, volume: PersistentVolume) -> PersistentVolume:
        reference = self._assumed_volumes.get(volume.metadata.name)
        if reference is None:
            return volume
        spec = replace(volume.spec, claim_ref=reference)
        return PersistentVolume(volume.metadata, spec, volume.status)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and (new is None or new.spec.claim_ref is not None):
            self._assumed_volumes.pop(old.metadata.name, None)


def volume_claim_keys(pod: Pod) -> list[str]:
    """The keys of a pod's PersistentVolumeClaims, each once."""
    names = (volume.claim_name(pod.metadata.name) for volume in pod.spec.volumes)
    return list(dict.fromkeys(f"{pod.metadata.namespace}/{name}" for name in names if name))


def _storage_class_of(each: PersistentVolumeClaim | PersistentVolume) -> list[str]:
    return [each.storage_class]


def _selected_node(claim: PersistentVolumeClaim) -> list[str]:
    node = claim.metadata.annotations.get(SELECTED_NODE)
    return [node] if node else []
