"""Selection of a volume for a claim. Pure."""

from collections.abc import Iterable

from kilonova.api.quantity import quantity_from_json
from kilonova.local.apimachinery.selectors import selector_from_object
from kilonova.local.controllers.volumes.objects import PersistentVolume, StorageClass, VolumeClaim
from kilonova.local.objects.core import Node
from kilonova.local.objects.node_selectors import matches_node


def is_reserved_for(volume: PersistentVolume, claim: VolumeClaim) -> bool:
    """Whether a volume is pre-bound to this claim."""
    reference, metadata = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.name) != (
        metadata.namespace,
        metadata.name,
    ):
        return False
    return reference.uid in ("", metadata.uid)


def find_mismatch(volume: PersistentVolume, claim: VolumeClaim) -> str:
    """Why a claim cannot use the volume that it names; empty if it can."""
    if quantity_from_json(volume.size) < quantity_from_json(claim.requested_storage):
        return "requested PV is too small"
    if volume.storage_class != (claim.storage_class or ""):
        return "storageClassName does not match"
    if volume.spec.volume_mode != claim.spec.volume_mode:
        return "incompatible volumeMode"
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return "incompatible accessMode"
    return ""


def find_matching_volume(
    claim: VolumeClaim,
    volumes: Iterable[PersistentVolume],
    node: Node | None = None,
) -> PersistentVolume | None:
    """The volume pre-bound to the claim, or the smallest available one that matches.

    `node` is the node that has to access it.
    """
    fitting: list[PersistentVolume] = []
    for volume in volumes:
        if volume.metadata.deletion_timestamp is not None or find_mismatch(volume, claim):
            continue
        if is_reserved_for(volume, claim):
            return volume
        if volume.spec.claim_ref is None and _is_candidate(volume, claim, node):
            fitting.append(volume)
    return min(
        fitting, key=lambda each: (quantity_from_json(each.size), each.metadata.name), default=None
    )


def _is_candidate(volume: PersistentVolume, claim: VolumeClaim, node: Node | None) -> bool:
    if volume.status.phase != "Available":
        return False
    selector = claim.spec.selector
    if selector is not None and not selector_from_object(selector).matches(volume.metadata.labels):
        return False
    if node is None or volume.node_selector is None:
        return True
    return matches_node(volume.node_selector, node.metadata.name, node.metadata.labels)


def find_default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """The default class: the youngest of those marked as default."""
    defaults = sorted(
        (each for each in classes if each.is_default), key=lambda each: each.metadata.name
    )
    return max(defaults, key=lambda each: each.metadata.creation_timestamp, default=None)
