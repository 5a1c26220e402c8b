"""Binds claims to volumes: existing or newly provisioned ones.

Volume, claim and the claim's status are written one after the other, each only if it differs. An
interrupted binding is completed by the next reconcile of the claim.
"""

from collections.abc import Hashable, Iterable
from typing import assert_never

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, Conflict, Controller, NotFound, Reflector, Watch
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.volumes.binding_plan import (
    BindingStep,
    BindStep,
    MarkLostStep,
    ProvisionStep,
    RecordEventStep,
    SetDefaultClassStep,
    build_claim_patch,
    build_claim_status,
    build_volume_patch,
    plan_bound_claim,
    plan_named_claim,
    plan_unbound_claim,
)
from kilonova.local.controllers.volumes.objects import (
    SELECTED_NODE,
    STORAGE_PROVISIONERS,
    VOLUME_CLAIMS,
    VOLUMES,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from kilonova.local.controllers.volumes.provisioner import (
    PROVISIONER,
    VolumeDirectories,
    build_local_volume,
    find_rejection,
    volume_name,
)
from kilonova.local.controllers.volumes.selection import find_default_class
from kilonova.local.objects.core import Node

_UNBOUND_INDEX = "unbound claims"
_USABLE_INDEX = "usable volumes"


class PersistentVolumeBinder:
    """Reconciles claims. Available volumes are found by class, pre-bound ones by claim."""

    def __init__(
        self,
        client: Client,
        claims: Reflector[VolumeClaim],
        volumes: Reflector[PersistentVolume],
        classes: Reflector[StorageClass],
        nodes: Reflector[Node],
        directories: VolumeDirectories,
        events: EventRecorder,
    ) -> None:
        self._client = client
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self._nodes = nodes
        self._directories = directories
        self._events = events
        claims.store.add_index(_UNBOUND_INDEX, _index_unbound)
        volumes.store.add_index(_USABLE_INDEX, _index_usable)
        watches = [
            Watch(claims),
            Watch(volumes, self._map_volume_to_claims),
            Watch(classes, self._map_class_to_claims),
            Watch(nodes, lambda _: ()),
        ]
        self.controller = Controller("volume binder", self._reconcile, watches, workers=4)

    def _map_volume_to_claims(self, volume: PersistentVolume) -> Iterable[Key]:
        reference = volume.spec.claim_ref
        if reference is not None:
            return ((reference.namespace, reference.name),)
        return [
            *self._find_unbound_claims(volume.storage_class),
            *self._find_unbound_claims(volume.metadata.name),
        ]

    def _map_class_to_claims(self, storage_class: StorageClass) -> Iterable[Key]:
        of_class = self._find_unbound_claims(storage_class.metadata.name)
        return (
            [*of_class, *self._find_unbound_claims(None)] if storage_class.is_default else of_class
        )

    def _find_unbound_claims(self, name: str | None) -> list[Key]:
        found = self._claims.store.by_index(_UNBOUND_INDEX, name)
        return [(claim.metadata.namespace, claim.metadata.name) for claim in found]

    async def _reconcile(self, key: Key) -> None:
        claim = self._claims.store.get(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return
        step = self._plan_step(claim)
        if step is None:
            return
        try:
            await self._apply_step(step, claim)
        except (NotFound, Conflict):
            return  # something changed meanwhile: its event enqueues the claim again

    def _plan_step(self, claim: VolumeClaim) -> BindingStep | None:
        volume = self._volumes.store.get(("", claim.spec.volume_name))
        if claim.was_bound:
            return plan_bound_claim(claim, volume)
        if claim.spec.volume_name:
            return plan_named_claim(claim, volume)
        name = claim.storage_class
        usable = [
            *self._volumes.store.by_index(
                _USABLE_INDEX, (claim.metadata.namespace, claim.metadata.name)
            ),
            *self._volumes.store.by_index(_USABLE_INDEX, name or ""),
        ]
        return plan_unbound_claim(
            claim,
            usable,
            self._classes.store.get(("", name)) if name else None,
            find_default_class(self._classes.store.objects()),
            self._nodes.store.get(("", claim.metadata.annotations.get(SELECTED_NODE, ""))),
        )

    async def _apply_step(self, step: BindingStep, claim: VolumeClaim) -> None:
        match step:
            case BindStep(volume):
                await self._bind(claim, volume)
            case RecordEventStep(reason, message, warning):
                self._events.event(_object_reference(claim), reason, message, warning=warning)
            case ProvisionStep(storage_class):
                await self._provision(claim, storage_class)
            case MarkLostStep(reason, message):
                if claim.status.phase != "Lost":
                    await self._patch_claim_status(claim, {"phase": "Lost"})
                    self._events.event(_object_reference(claim), reason, message, warning=True)
            case SetDefaultClassStep(storage_class):
                await self._patch_claim(claim, {"spec": {"storageClassName": storage_class}})
            case _:
                assert_never(step)

    async def _bind(self, claim: VolumeClaim, volume: PersistentVolume) -> None:
        if (patch := build_volume_patch(volume, claim)) is not None:
            metadata = volume.metadata
            about = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
            patch["metadata"] = {**patch.get("metadata", {}), **about}
            await self._client.patch(VOLUMES, metadata.name, patch)
        if (patch := build_claim_patch(claim, volume)) is not None:
            claim = await self._patch_claim(claim, patch)
        if (status := build_claim_status(claim, volume)) is not None:
            await self._patch_claim_status(claim, status)

    async def _provision(self, claim: VolumeClaim, storage_class: StorageClass) -> None:
        provisioner = storage_class.provisioner
        if claim.metadata.annotations.get(STORAGE_PROVISIONERS[0]) != provisioner:
            annotations = dict.fromkeys(STORAGE_PROVISIONERS, provisioner)
            claim = await self._patch_claim(claim, {"metadata": {"annotations": annotations}})
        about = _object_reference(claim)
        if provisioner != PROVISIONER:
            text = (
                "Waiting for a volume to be created either by the external provisioner "
                f"'{provisioner}' or manually by the system administrator. If volume creation is "
                "delayed, please verify that the provisioner is running and correctly registered."
            )
            self._events.event(about, "ExternalProvisioning", text)
            return
        if rejection := find_rejection(claim):
            self._events.event(about, "ProvisioningFailed", rejection, warning=True)
            return
        name = volume_name(claim)
        node = self._nodes.store.get(("", claim.metadata.annotations.get(SELECTED_NODE, "")))
        body = build_local_volume(claim, storage_class, node, self._directories.path(name))
        try:
            await self._client.create(VOLUMES, body)
        except AlreadyExists:
            return
        self._events.event(
            about, "ProvisioningSucceeded", f"Successfully provisioned volume {name}"
        )

    async def _patch_claim(self, claim: VolumeClaim, patch: JsonObject) -> VolumeClaim:
        metadata = claim.metadata
        about = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        body = {**patch, "metadata": {**patch.get("metadata", {}), **about}}
        return await self._client.patch(VOLUME_CLAIMS, metadata.name, body, metadata.namespace)

    async def _patch_claim_status(self, claim: VolumeClaim, status: JsonObject) -> None:
        metadata = claim.metadata
        body = {"metadata": {"uid": metadata.uid}, "status": status}
        await self._client.patch(
            VOLUME_CLAIMS, metadata.name, body, metadata.namespace, subresource="status"
        )


def _index_unbound(claim: VolumeClaim) -> Iterable[Hashable]:
    """The class of the claim, or the volume that it requests by name."""
    if claim.status.phase == "Bound":
        return ()
    return (claim.spec.volume_name or claim.storage_class,)


def _index_usable(volume: PersistentVolume) -> Iterable[Hashable]:
    reference = volume.spec.claim_ref
    if reference is not None:
        return ((reference.namespace, reference.name),)
    return (volume.storage_class,) if volume.status.phase == "Available" else ()


def _object_reference(claim: VolumeClaim) -> ObjectReference:
    metadata = claim.metadata
    return ObjectReference.to(VOLUME_CLAIMS, metadata.name, metadata.namespace, metadata.uid)
