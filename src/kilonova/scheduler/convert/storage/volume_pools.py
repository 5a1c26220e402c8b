"""Free volumes: which match a claim, and how many a node can access.

Free volumes that equal claims may request are a **pool**. A pool has one resource per size of its
volumes: a node has as many of it as it can access volumes of at least that size. A claim requests
one of every size up to the smallest sufficient one, so that the counts suffice exactly if every
claim can get a volume of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kilonova.scheduler.convert.selectors import (
    Requirements,
    convert_label_selector,
    matches_node_selector,
)
from kilonova.scheduler.core.model.requests import volume_pool_resource
from kilonova.scheduler.objects.storage_v1 import PersistentVolume, PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class VolumePool:
    """The requirements on volumes besides their size; `labels` None matches any."""

    storage_class: str
    volume_mode: str
    access_modes: frozenset[str]
    attributes_class: str = ""
    labels: Requirements | None = None

    @classmethod
    def for_claim(cls, claim: PersistentVolumeClaim) -> "VolumePool":
        """The pool that matches a claim."""
        return cls(
            claim.storage_class,
            claim.spec.volume_mode,
            frozenset(claim.spec.access_modes),
            claim.spec.volume_attributes_class_name or "",
            convert_label_selector(claim.spec.selector),
        )

    def matches(self, volume: PersistentVolume) -> bool:
        """Whether a volume is free and belongs to the pool."""
        return (
            volume.spec.claim_ref is None
            and volume.status.phase == "Available"
            and volume.metadata.deletion_timestamp is None
            and volume.storage_class == self.storage_class
            and volume.spec.volume_mode == self.volume_mode
            and (volume.spec.volume_attributes_class_name or "") == self.attributes_class
            and self.access_modes <= set(volume.spec.access_modes)
            and all(each.matches(volume.metadata.labels) for each in self.labels or ())
        )

    def resource_name(self, size: int) -> str:
        """The resource of volumes of at least this size."""
        labels = ",".join(
            f"{each.key} {each.operator} {'|'.join(each.values)}" for each in self.labels or ()
        )
        modes = "+".join(sorted(self.access_modes))
        facts = (self.storage_class, self.volume_mode, modes, self.attributes_class, labels)
        return volume_pool_resource("/".join((*facts, str(size))))


def claim_pool_resources(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]
) -> list[str] | None:
    """The pool resources that a claim requests one of each; None if no free volume is
    sufficient."""
    pool = VolumePool.for_claim(claim)
    sizes = sorted({volume.capacity_bytes for volume in volumes if pool.matches(volume)})
    sufficient = next((size for size in sizes if size >= claim.requested_bytes), None)
    if sufficient is None:
        return None
    return [pool.resource_name(size) for size in sizes if size <= sufficient]


def node_pool_amounts(
    volume_pool: VolumePool,
    volumes: Iterable[PersistentVolume],
    node: str,
    labels: Mapping[str, str],
) -> dict[str, int]:
    """The amounts of a pool's resources on a node."""
    pool_volumes = [volume for volume in volumes if volume_pool.matches(volume)]
    accessible_sizes = [
        volume.capacity_bytes
        for volume in pool_volumes
        if matches_node_selector(volume.node_selector, node, labels)
    ]
    sizes = {volume.capacity_bytes for volume in pool_volumes}
    return {
        volume_pool.resource_name(size): sum(each >= size for each in accessible_sizes)
        for size in sizes
    }


def find_prebound_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]
) -> PersistentVolume | None:
    """The volume that is prebound to this claim, if it is sufficient."""
    for volume in volumes:
        reference, meta = volume.spec.claim_ref, claim.metadata
        if (
            reference is not None
            and (reference.namespace, reference.name) == (meta.namespace, meta.name)
            and reference.uid in ("", meta.uid)
            and volume.metadata.deletion_timestamp is None
            and volume.capacity_bytes >= claim.requested_bytes
            and volume.spec.volume_mode == claim.spec.volume_mode
        ):
            return volume
    return None


def find_smallest_volume(
    claim: PersistentVolumeClaim,
    volumes: Iterable[PersistentVolume],
    node: str,
    labels: Mapping[str, str],
) -> PersistentVolume | None:
    """The smallest matching volume for a claim on a node."""
    pool = VolumePool.for_claim(claim)
    candidates = [
        volume
        for volume in volumes
        if pool.matches(volume)
        and volume.capacity_bytes >= claim.requested_bytes
        and matches_node_selector(volume.node_selector, node, labels)
    ]
    return min(candidates, key=lambda each: (each.capacity_bytes, each.metadata.name), default=None)
