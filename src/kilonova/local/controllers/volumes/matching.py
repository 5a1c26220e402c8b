"""Which volume a claim gets. Pure."""

from collections.abc import Iterable

from kilonova.api.quantity import from_json
from kilonova.local.controllers.nodematch import selects
from kilonova.local.controllers.objects import Node
from kilonova.local.controllers.volumes.objects import PersistentVolume, StorageClass, VolumeClaim
from kilonova.local.selectors import label_selector


def is_for(volume: PersistentVolume, claim: VolumeClaim) -> bool:
    """Whether a volume is set aside for this claim."""
    reference, known = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.name) != (known.namespace, known.name):
        return False
    return reference.uid in ("", known.uid)


def mismatch(volume: PersistentVolume, claim: VolumeClaim) -> str:
    """Why a volume that a claim names cannot be its; empty where it can."""
    if from_json(volume.size) < from_json(claim.requested):
        return "requested PV is too small"
    if volume.storage_class != (claim.storage_class or ""):
        return "storageClassName does not match"
    if volume.spec.volume_mode != claim.spec.volume_mode:
        return "incompatible volumeMode"
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return "incompatible accessMode"
    return ""


def best_volume(
    claim: VolumeClaim,
    volumes: Iterable[PersistentVolume],
    node: Node | None = None,
) -> PersistentVolume | None:
    """The volume set aside for the claim, or the smallest free one that will do.

    `node` is the one that has to reach it.
    """
    fitting: list[PersistentVolume] = []
    for volume in volumes:
        if volume.metadata.deletion_timestamp is not None or mismatch(volume, claim):
            continue
        if is_for(volume, claim):
            return volume
        if volume.spec.claim_ref is None and _is_wanted(volume, claim, node):
            fitting.append(volume)
    return min(fitting, key=lambda each: (from_json(each.size), each.metadata.name), default=None)


def _is_wanted(volume: PersistentVolume, claim: VolumeClaim, node: Node | None) -> bool:
    if volume.status.phase != "Available":
        return False
    selector = claim.spec.selector
    if selector is not None and not label_selector(selector).matches(volume.metadata.labels):
        return False
    if node is None or volume.nodes is None:
        return True
    return selects(volume.nodes, node.metadata.name, node.metadata.labels)


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """The class of claims that name none: the youngest of those that want to be it."""
    wanting = sorted(
        (each for each in classes if each.is_default), key=lambda each: each.metadata.name
    )
    return max(wanting, key=lambda each: each.metadata.creation_timestamp, default=None)
