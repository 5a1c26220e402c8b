"""The next step of binding a claim, and the objects it writes. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.controllers.volumes.objects import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from kilonova.local.controllers.volumes.selection import (
    find_matching_volume,
    find_mismatch,
    is_reserved_for,
)
from kilonova.local.objects.core import Node

_DATA_LOST_MESSAGE = "Data on the volume is lost!"


@dataclass(frozen=True, slots=True)
class BindStep:
    """Bind claim and volume to each other, as far as they are not yet."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class RecordEventStep:
    """Nothing can be done now; record an event with the cause."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class ProvisionStep:
    """Provision a volume."""

    storage_class: StorageClass


@dataclass(frozen=True, slots=True)
class MarkLostStep:
    """The volume of the claim is permanently lost."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetDefaultClassStep:
    """The claim names no class: set the default one."""

    storage_class: str


BindingStep = BindStep | RecordEventStep | ProvisionStep | MarkLostStep | SetDefaultClassStep


def plan_bound_claim(claim: VolumeClaim, volume: PersistentVolume | None) -> BindingStep:
    """For a claim that is bound; `volume` is the one that it names."""
    if not claim.spec.volume_name:
        return MarkLostStep(
            "ClaimLost", f"Bound claim has lost reference to PersistentVolume. {_DATA_LOST_MESSAGE}"
        )
    if volume is None:
        return MarkLostStep(
            "ClaimLost", f"Bound claim has lost its PersistentVolume. {_DATA_LOST_MESSAGE}"
        )
    reference = volume.spec.claim_ref
    if reference is not None and reference.uid != claim.metadata.uid:
        text = "Two claims are bound to the same volume, this one is bound incorrectly"
        return MarkLostStep("ClaimMisbound", text)
    return BindStep(volume)


def plan_named_claim(claim: VolumeClaim, volume: PersistentVolume | None) -> BindingStep | None:
    """For a claim that requests a volume by name."""
    if volume is None:
        return None
    if is_reserved_for(volume, claim):
        return BindStep(volume)
    if volume.spec.claim_ref is not None:
        text = f'volume "{volume.metadata.name}" already bound to a different claim.'
        return RecordEventStep("FailedBinding", text, warning=True)
    if mismatch := find_mismatch(volume, claim):
        text = f'Cannot bind to requested volume "{volume.metadata.name}": {mismatch}'
        return RecordEventStep("VolumeMismatch", text, warning=True)
    return BindStep(volume)


def plan_unbound_claim(
    claim: VolumeClaim,
    volumes: Iterable[PersistentVolume],
    storage_class: StorageClass | None,
    default: StorageClass | None,
    node: Node | None,
) -> BindingStep:
    """For a claim that accepts any volume. `node` is the selected node of its first pod."""
    waiting = storage_class is not None and storage_class.waits_for_first_consumer and node is None
    among = [each for each in volumes if not waiting or is_reserved_for(each, claim)]
    if (volume := find_matching_volume(claim, among, node)) is not None:
        return BindStep(volume)
    name = claim.storage_class
    if name is None and default is not None:
        return SetDefaultClassStep(default.metadata.name)
    if waiting:
        text = "waiting for first consumer to be created before binding"
        return RecordEventStep("WaitForFirstConsumer", text)
    if not name:
        text = "no persistent volumes available for this claim and no storage class is set"
        return RecordEventStep("FailedBinding", text)
    if storage_class is None:
        text = f'storageclass.storage.k8s.io "{name}" not found'
        return RecordEventStep("ProvisioningFailed", text, warning=True)
    return ProvisionStep(storage_class)


def build_volume_patch(volume: PersistentVolume, claim: VolumeClaim) -> JsonObject | None:
    """The patch of the volume's claimRef; None if it is up to date."""
    reference, metadata = volume.spec.claim_ref, claim.metadata
    if reference is not None and reference.uid == metadata.uid:
        return None
    patch: JsonObject = {"spec": {"claimRef": build_claim_reference(claim)}}
    if reference is None:
        patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return patch


def build_claim_reference(claim: VolumeClaim) -> JsonObject:
    """The claim as a volume's claimRef."""
    metadata = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
    }


def build_claim_patch(claim: VolumeClaim, volume: PersistentVolume) -> JsonObject | None:
    """The patch of the claim's volume name; None if it is up to date."""
    annotations: JsonObject = {}
    patch: JsonObject = {"metadata": {"annotations": annotations}}
    if claim.spec.volume_name != volume.metadata.name:
        patch["spec"] = {"volumeName": volume.metadata.name}
        annotations[BOUND_BY_CONTROLLER] = "yes"
    if not claim.was_bound:
        annotations[BIND_COMPLETED] = "yes"
    return patch if annotations else None


def build_claim_status(claim: VolumeClaim, volume: PersistentVolume) -> JsonObject | None:
    """The status of a bound claim; None if it is up to date."""
    status, spec = claim.status, volume.spec
    now = (status.phase, status.access_modes, status.capacity)
    if now == ("Bound", spec.access_modes, spec.capacity):
        return None
    return {
        "phase": "Bound",
        "accessModes": list(spec.access_modes),
        "capacity": dict(spec.capacity),
    }
