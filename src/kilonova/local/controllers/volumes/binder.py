"""Gives claims their volumes: ones that are there, or new ones.

Volume, claim and the claim's status are written one after the other, each only where it does not
say so yet. Whatever is interrupted is finished by the next look at the claim.
"""

from collections.abc import Hashable, Iterable
from typing import assert_never

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, Conflict, Controller, NotFound, Reflector, Watch
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.local.controllers.objects import Node
from kilonova.local.controllers.volumes.matching import default_class
from kilonova.local.controllers.volumes.objects import (
    SELECTED_NODE,
    STORAGE_PROVISIONERS,
    VOLUME_CLAIMS,
    VOLUMES,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from kilonova.local.controllers.volumes.provisioning import (
    PROVISIONER,
    Folders,
    local_volume,
    refusal,
    volume_name,
)
from kilonova.local.controllers.volumes.steps import (
    Adopt,
    Bind,
    Lose,
    Provision,
    Step,
    Tell,
    claim_patch,
    claim_status,
    step_for_bound,
    step_for_free,
    step_for_named,
    volume_patch,
)

_UNBOUND = "unbound claims"
_USABLE = "usable volumes"


class Binder:
    """Works on claims. Free volumes are found by class, those set aside by claim."""

    def __init__(
        self,
        client: Client,
        claims: Reflector[VolumeClaim],
        volumes: Reflector[PersistentVolume],
        classes: Reflector[StorageClass],
        nodes: Reflector[Node],
        folders: Folders,
        events: Recorder,
    ) -> None:
        self._client = client
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self._nodes = nodes
        self._folders = folders
        self._events = events
        claims.store.add_index(_UNBOUND, _unbound)
        volumes.store.add_index(_USABLE, _usable)
        watches = [
            Watch(claims),
            Watch(volumes, self._concerned),
            Watch(classes, self._waiting),
            Watch(nodes, lambda _: ()),
        ]
        self.controller = Controller("volume binder", self._reconcile, watches, workers=4)

    def _concerned(self, volume: PersistentVolume) -> Iterable[Key]:
        reference = volume.spec.claim_ref
        if reference is not None:
            return ((reference.namespace, reference.name),)
        return [*self._of_class(volume.storage_class), *self._of_class(volume.metadata.name)]

    def _waiting(self, storage_class: StorageClass) -> Iterable[Key]:
        of_class = self._of_class(storage_class.metadata.name)
        return [*of_class, *self._of_class(None)] if storage_class.is_default else of_class

    def _of_class(self, name: str | None) -> list[Key]:
        found = self._claims.store.find(_UNBOUND, name)
        return [(claim.metadata.namespace, claim.metadata.name) for claim in found]

    async def _reconcile(self, key: Key) -> None:
        claim = self._claims.store.get(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return
        step = self._step(claim)
        if step is None:
            return
        try:
            await self._take(step, claim)
        except (NotFound, Conflict):
            return  # something changed meanwhile, and that wakes the claim again

    def _step(self, claim: VolumeClaim) -> Step | None:
        volume = self._volumes.store.get(("", claim.spec.volume_name))
        if claim.was_bound:
            return step_for_bound(claim, volume)
        if claim.spec.volume_name:
            return step_for_named(claim, volume)
        name = claim.storage_class
        usable = [
            *self._volumes.store.find(_USABLE, (claim.metadata.namespace, claim.metadata.name)),
            *self._volumes.store.find(_USABLE, name or ""),
        ]
        return step_for_free(
            claim,
            usable,
            self._classes.store.get(("", name)) if name else None,
            default_class(self._classes.store.objects()),
            self._nodes.store.get(("", claim.metadata.annotations.get(SELECTED_NODE, ""))),
        )

    async def _take(self, step: Step, claim: VolumeClaim) -> None:
        match step:
            case Bind(volume):
                await self._bind(claim, volume)
            case Tell(reason, message, warning):
                self._events.event(_about(claim), reason, message, warning=warning)
            case Provision(storage_class):
                await self._provision(claim, storage_class)
            case Lose(reason, message):
                if claim.status.phase != "Lost":
                    await self._write_status(claim, {"phase": "Lost"})
                    self._events.event(_about(claim), reason, message, warning=True)
            case Adopt(storage_class):
                await self._write(claim, {"spec": {"storageClassName": storage_class}})
            case _:
                assert_never(step)

    async def _bind(self, claim: VolumeClaim, volume: PersistentVolume) -> None:
        if (patch := volume_patch(volume, claim)) is not None:
            known = volume.metadata
            about = {"uid": known.uid, "resourceVersion": known.resource_version}
            patch["metadata"] = {**patch.get("metadata", {}), **about}
            await self._client.patch(VOLUMES, known.name, patch)
        if (patch := claim_patch(claim, volume)) is not None:
            claim = await self._write(claim, patch)
        if (status := claim_status(claim, volume)) is not None:
            await self._write_status(claim, status)

    async def _provision(self, claim: VolumeClaim, storage_class: StorageClass) -> None:
        provisioner = storage_class.provisioner
        if claim.metadata.annotations.get(STORAGE_PROVISIONERS[0]) != provisioner:
            noted = dict.fromkeys(STORAGE_PROVISIONERS, provisioner)
            claim = await self._write(claim, {"metadata": {"annotations": noted}})
        about = _about(claim)
        if provisioner != PROVISIONER:
            text = (
                "Waiting for a volume to be created either by the external provisioner "
                f"'{provisioner}' or manually by the system administrator. If volume creation is "
                "delayed, please verify that the provisioner is running and correctly registered."
            )
            self._events.event(about, "ExternalProvisioning", text)
            return
        if trouble := refusal(claim):
            self._events.event(about, "ProvisioningFailed", trouble, warning=True)
            return
        name = volume_name(claim)
        node = self._nodes.store.get(("", claim.metadata.annotations.get(SELECTED_NODE, "")))
        body = local_volume(claim, storage_class, node, self._folders.path(name))
        try:
            await self._client.create(VOLUMES, body)
        except AlreadyExists:
            return
        self._events.event(
            about, "ProvisioningSucceeded", f"Successfully provisioned volume {name}"
        )

    async def _write(self, claim: VolumeClaim, patch: JsonObject) -> VolumeClaim:
        known = claim.metadata
        about = {"uid": known.uid, "resourceVersion": known.resource_version}
        body = {**patch, "metadata": {**patch.get("metadata", {}), **about}}
        return await self._client.patch(VOLUME_CLAIMS, known.name, body, known.namespace)

    async def _write_status(self, claim: VolumeClaim, status: JsonObject) -> None:
        known = claim.metadata
        body = {"metadata": {"uid": known.uid}, "status": status}
        await self._client.patch(
            VOLUME_CLAIMS, known.name, body, known.namespace, subresource="status"
        )


def _unbound(claim: VolumeClaim) -> Iterable[Hashable]:
    """Under the class that it is of, or under the volume that it asks for."""
    if claim.status.phase == "Bound":
        return ()
    return (claim.spec.volume_name or claim.storage_class,)


def _usable(volume: PersistentVolume) -> Iterable[Hashable]:
    reference = volume.spec.claim_ref
    if reference is not None:
        return ((reference.namespace, reference.name),)
    return (volume.storage_class,) if volume.status.phase == "Available" else ()


def _about(claim: VolumeClaim) -> Reference:
    known = claim.metadata
    return Reference.to(VOLUME_CLAIMS, known.name, known.namespace, known.uid)
