"""Volumes that are there and free: which would do for a claim, and how many a node can reach.

Free volumes for which equal claims may ask are a **pool**. A pool is a resource for each size of
its volumes: of a size, a node has as many as it can reach that are at least so large. A claim takes
one of every size up to the smallest that will do, so that what is counted is enough exactly where
every claim can have a volume of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kilonova.scheduler.core.asks import pool
from kilonova.scheduler.reading.selectors import Requirements, reaches, requirements_of
from kilonova.scheduler.storage import PersistentVolume, VolumeClaim


@dataclass(frozen=True, slots=True)
class Pool:
    """What volumes must be like, whatever their size. `labels` None is any."""

    storage_class: str
    volume_mode: str
    access_modes: frozenset[str]
    attributes_class: str = ""
    labels: Requirements | None = None

    @classmethod
    def of(cls, claim: VolumeClaim) -> "Pool":
        """The pool that a claim asks for a volume."""
        return cls(
            claim.storage_class,
            claim.spec.volume_mode,
            frozenset(claim.spec.access_modes),
            claim.spec.volume_attributes_class_name or "",
            requirements_of(claim.spec.selector),
        )

    def holds(self, volume: PersistentVolume) -> bool:
        """Whether a volume is free and one of these."""
        return (
            volume.spec.claim_ref is None
            and volume.status.phase == "Available"
            and volume.metadata.deletion_timestamp is None
            and volume.storage_class == self.storage_class
            and volume.spec.volume_mode == self.volume_mode
            and (volume.spec.volume_attributes_class_name or "") == self.attributes_class
            and self.access_modes <= set(volume.spec.access_modes)
            and all(each.holds(volume.metadata.labels) for each in self.labels or ())
        )

    def resource(self, size: int) -> str:
        """The resource of volumes that are at least so large."""
        labels = ",".join(
            f"{each.key} {each.operator} {'|'.join(each.values)}" for each in self.labels or ()
        )
        modes = "+".join(sorted(self.access_modes))
        facts = (self.storage_class, self.volume_mode, modes, self.attributes_class, labels)
        return pool("/".join((*facts, str(size))))


def pool_requests(claim: VolumeClaim, volumes: Iterable[PersistentVolume]) -> list[str] | None:
    """What a claim takes one of each; None if no free volume will do."""
    wanted = Pool.of(claim)
    sizes = sorted({volume.size for volume in volumes if wanted.holds(volume)})
    enough = next((size for size in sizes if size >= claim.size), None)
    if enough is None:
        return None
    return [wanted.resource(size) for size in sizes if size <= enough]


def pool_amounts(
    wanted: Pool, volumes: Iterable[PersistentVolume], node: str, labels: Mapping[str, str]
) -> dict[str, int]:
    """What a node has of a pool."""
    held = [volume for volume in volumes if wanted.holds(volume)]
    near = [volume.size for volume in held if reaches(volume.nodes, node, labels)]
    sizes = {volume.size for volume in held}
    return {wanted.resource(size): sum(each >= size for each in near) for size in sizes}


def set_aside(claim: VolumeClaim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """The volume that somebody made for just this claim, if it will do."""
    for volume in volumes:
        reference, known = volume.spec.claim_ref, claim.metadata
        if (
            reference is not None
            and (reference.namespace, reference.name) == (known.namespace, known.name)
            and reference.uid in ("", known.uid)
            and volume.metadata.deletion_timestamp is None
            and volume.size >= claim.size
            and volume.spec.volume_mode == claim.spec.volume_mode
        ):
            return volume
    return None


def smallest_free(
    claim: VolumeClaim, volumes: Iterable[PersistentVolume], node: str, labels: Mapping[str, str]
) -> PersistentVolume | None:
    """The volume that a claim should get on a node."""
    wanted = Pool.of(claim)
    able = [
        volume
        for volume in volumes
        if wanted.holds(volume)
        and volume.size >= claim.size
        and reaches(volume.nodes, node, labels)
    ]
    return min(able, key=lambda each: (each.size, each.metadata.name), default=None)
