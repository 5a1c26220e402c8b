"""Claims to storage and volumes as the caches show them, found by what refers to them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from kilonova.kube import Store
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.volumes import ClaimSelection, VolumeGrant
from kilonova.scheduler.storage import (
    SELECTED_NODE,
    ClaimReference,
    CsiNode,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    VolumeClaim,
)

_BY_CLASS = "storage class"
_BY_NODE = "selected node"
_BY_CLAIM = "volume claim"


@dataclass(frozen=True, slots=True)
class Shelves:
    """All that is known of storage: a `reading.volumes.Storage`."""

    claims: Store[VolumeClaim]
    volumes: Store[PersistentVolume]
    classes: Store[StorageClass]
    drivers: Store[StorageDriver]
    left: Store[StorageCapacity]
    csi_nodes: Store[CsiNode]
    pods: Store[Pod]
    _given: dict[str, ClaimReference] = field(init=False, default_factory=dict[str, ClaimReference])
    """Volumes that were set aside for claims, which the cache may not show yet."""

    def __post_init__(self) -> None:
        self.volumes.subscribe(self._volume_changed)
        self.claims.add_index(_BY_CLASS, lambda each: () if each.is_bound else _class(each))
        self.claims.add_index(_BY_NODE, _selected_node)
        self.volumes.add_index(_BY_CLASS, _class)
        self.left.add_index(_BY_CLASS, lambda each: [each.storage_class_name])
        self.pods.add_index(_BY_CLAIM, claim_keys)

    def claim(self, namespace: str, name: str) -> VolumeClaim | None:
        return self.claims.get((namespace, name))

    def volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.get(("", name))

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(("", name))

    def volumes_of(self, storage_class: str) -> Iterable[PersistentVolume]:
        volumes = self.volumes.find(_BY_CLASS, storage_class)
        return map(self._as_given, volumes) if self._given else volumes

    def give(self, promise: ClaimSelection | VolumeGrant) -> None:
        """Has a volume count as set aside, before it is written."""
        if isinstance(promise, VolumeGrant):
            namespace, _, name = promise.claim.partition("/")
            self._given[promise.volume] = ClaimReference(namespace, name)

    def take_back(self, promise: ClaimSelection | VolumeGrant) -> None:
        """A volume was not set aside after all."""
        if isinstance(promise, VolumeGrant):
            self._given.pop(promise.volume, None)

    def capacities(self, storage_class: StorageClass) -> Iterable[StorageCapacity] | None:
        driver = self.drivers.get(("", storage_class.provisioner))
        if driver is None or not driver.spec.storage_capacity:
            return None
        return self.left.find(_BY_CLASS, storage_class.metadata.name)

    def pods_of(self, claim: str) -> list[str]:
        """The pods that use a claim, NAMESPACE/NAME."""
        return [pod.key for pod in self.pods.find(_BY_CLAIM, claim)]

    def pods_that_wait_for(self, storage_class: str) -> list[str]:
        """The pods with claims of a class that have no volume yet."""
        claims = self.claims.find(_BY_CLASS, storage_class)
        return [pod for claim in claims for pod in self.pods_of(claim.key)]

    def pods_sent_to(self, node: str) -> list[str]:
        """The pods with claims whose volumes are made for a node."""
        claims = self.claims.find(_BY_NODE, node)
        return [pod for claim in claims for pod in self.pods_of(claim.key)]

    def _as_given(self, volume: PersistentVolume) -> PersistentVolume:
        reference = self._given.get(volume.metadata.name)
        if reference is None:
            return volume
        spec = replace(volume.spec, claim_ref=reference)
        return PersistentVolume(volume.metadata, spec, volume.status)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and (new is None or new.spec.claim_ref is not None):
            self._given.pop(old.metadata.name, None)


def claim_keys(pod: Pod) -> list[str]:
    """The claims to storage of a pod, by their keys, each once."""
    names = (volume.claim_name(pod.metadata.name) for volume in pod.spec.volumes)
    return list(dict.fromkeys(f"{pod.metadata.namespace}/{name}" for name in names if name))


def _class(each: VolumeClaim | PersistentVolume) -> list[str]:
    return [each.storage_class]


def _selected_node(claim: VolumeClaim) -> list[str]:
    node = claim.metadata.annotations.get(SELECTED_NODE)
    return [node] if node else []
