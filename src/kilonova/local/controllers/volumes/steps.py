"""What is to be done next for a claim, and what binding writes. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.controllers.objects import Node
from kilonova.local.controllers.volumes.matching import best_volume, is_for, mismatch
from kilonova.local.controllers.volumes.objects import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)

_LOST = "Data on the volume is lost!"


@dataclass(frozen=True, slots=True)
class Bind:
    """Let claim and volume have each other, as far as they do not yet."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Tell:
    """Nothing can be done now; an event says why."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Provision:
    """Make a volume."""

    storage_class: StorageClass


@dataclass(frozen=True, slots=True)
class Lose:
    """What the claim had is gone for good."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """The claim names no class: let it have the default one."""

    storage_class: str


Step = Bind | Tell | Provision | Lose | Adopt


def step_for_bound(claim: VolumeClaim, volume: PersistentVolume | None) -> Step:
    """For a claim that has had its volume; `volume` is the one that it names."""
    if not claim.spec.volume_name:
        return Lose("ClaimLost", f"Bound claim has lost reference to PersistentVolume. {_LOST}")
    if volume is None:
        return Lose("ClaimLost", f"Bound claim has lost its PersistentVolume. {_LOST}")
    reference = volume.spec.claim_ref
    if reference is not None and reference.uid != claim.metadata.uid:
        text = "Two claims are bound to the same volume, this one is bound incorrectly"
        return Lose("ClaimMisbound", text)
    return Bind(volume)


def step_for_named(claim: VolumeClaim, volume: PersistentVolume | None) -> Step | None:
    """For a claim that asks for a volume by name."""
    if volume is None:
        return None
    if is_for(volume, claim):
        return Bind(volume)
    if volume.spec.claim_ref is not None:
        text = f'volume "{volume.metadata.name}" already bound to a different claim.'
        return Tell("FailedBinding", text, warning=True)
    if trouble := mismatch(volume, claim):
        text = f'Cannot bind to requested volume "{volume.metadata.name}": {trouble}'
        return Tell("VolumeMismatch", text, warning=True)
    return Bind(volume)


def step_for_free(
    claim: VolumeClaim,
    volumes: Iterable[PersistentVolume],
    storage_class: StorageClass | None,
    default: StorageClass | None,
    node: Node | None,
) -> Step:
    """For a claim that takes any volume. `node` is where its first pod is to be."""
    waiting = storage_class is not None and storage_class.waits_for_pod and node is None
    among = [each for each in volumes if not waiting or is_for(each, claim)]
    if (volume := best_volume(claim, among, node)) is not None:
        return Bind(volume)
    name = claim.storage_class
    if name is None and default is not None:
        return Adopt(default.metadata.name)
    if waiting:
        text = "waiting for first consumer to be created before binding"
        return Tell("WaitForFirstConsumer", text)
    if not name:
        text = "no persistent volumes available for this claim and no storage class is set"
        return Tell("FailedBinding", text)
    if storage_class is None:
        text = f'storageclass.storage.k8s.io "{name}" not found'
        return Tell("ProvisioningFailed", text, warning=True)
    return Provision(storage_class)


def volume_patch(volume: PersistentVolume, claim: VolumeClaim) -> JsonObject | None:
    """Say in the volume whose it is; None where it does."""
    reference, known = volume.spec.claim_ref, claim.metadata
    if reference is not None and reference.uid == known.uid:
        return None
    patch: JsonObject = {"spec": {"claimRef": reference_to(claim)}}
    if reference is None:
        patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return patch


def reference_to(claim: VolumeClaim) -> JsonObject:
    """The claim, as a volume names it."""
    known = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": known.namespace,
        "name": known.name,
        "uid": known.uid,
        "resourceVersion": known.resource_version,
    }


def claim_patch(claim: VolumeClaim, volume: PersistentVolume) -> JsonObject | None:
    """Say in the claim what it has; None where it does."""
    annotations: JsonObject = {}
    patch: JsonObject = {"metadata": {"annotations": annotations}}
    if claim.spec.volume_name != volume.metadata.name:
        patch["spec"] = {"volumeName": volume.metadata.name}
        annotations[BOUND_BY_CONTROLLER] = "yes"
    if not claim.was_bound:
        annotations[BIND_COMPLETED] = "yes"
    return patch if annotations else None


def claim_status(claim: VolumeClaim, volume: PersistentVolume) -> JsonObject | None:
    """The status of a claim that has a volume; None where it is that already."""
    status, spec = claim.status, volume.spec
    now = (status.phase, status.access_modes, status.capacity)
    if now == ("Bound", spec.access_modes, spec.capacity):
        return None
    return {
        "phase": "Bound",
        "accessModes": list(spec.access_modes),
        "capacity": dict(spec.capacity),
    }
