"""Says of each volume whether it is free, and clears away those whose claim is gone."""

from collections.abc import Iterable

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Watch
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.volumes.objects import (
    PROVISIONED_BY,
    VOLUME_CLAIMS,
    VOLUMES,
    PersistentVolume,
    VolumeClaim,
)
from kilonova.local.controllers.volumes.provisioning import PROVISIONER, Folders

_BY_CLAIM = "claim of a volume"


def phase_of(volume: PersistentVolume, claim: VolumeClaim | None) -> str:
    """The phase of a volume; `claim` is the one that it is for, if that is there."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return "Available"
    if claim is not None:
        return "Bound"
    return "Failed" if volume.status.phase == "Failed" else "Released"


def is_ours_to_delete(volume: PersistentVolume) -> bool:
    """Whether nobody wants a volume any more that was made on demand."""
    return (
        volume.spec.persistent_volume_reclaim_policy == "Delete"
        and volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
        and volume.metadata.deletion_timestamp is None
    )


class Reclaim:
    """Works on volumes."""

    def __init__(
        self,
        client: Client,
        claims: Reflector[VolumeClaim],
        volumes: Reflector[PersistentVolume],
        folders: Folders,
        events: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._claims = claims
        self._volumes = volumes
        self._folders = folders
        self._events = events
        self._clock = clock
        volumes.store.add_index(_BY_CLAIM, _claim_of)
        watches = [Watch(volumes), Watch(claims, self._volumes_of)]
        self.controller = Controller("volumes", self._reconcile, watches)

    def _volumes_of(self, claim: VolumeClaim) -> Iterable[Key]:
        key = (claim.metadata.namespace, claim.metadata.name)
        return [("", each.metadata.name) for each in self._volumes.store.find(_BY_CLAIM, key)]

    async def _reconcile(self, key: Key) -> None:
        volume = self._volumes.store.get(key)
        if volume is None:
            return
        phase = phase_of(volume, await self._claim(volume))
        try:
            if phase != volume.status.phase:
                await self._write(volume, phase)
            if phase == "Released" and is_ours_to_delete(volume):
                await self._delete(volume)
        except (NotFound, Conflict):
            return

    async def _claim(self, volume: PersistentVolume) -> VolumeClaim | None:
        """The claim of a volume. The cache may lag behind: before data goes the server is asked."""
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return None
        claim = self._claims.store.get((reference.namespace, reference.name))
        if claim is None or claim.metadata.uid != reference.uid:
            try:
                claim = await self._client.get(VOLUME_CLAIMS, reference.name, reference.namespace)
            except NotFound:
                return None
        return claim if claim.metadata.uid == reference.uid else None

    async def _delete(self, volume: PersistentVolume) -> None:
        known = volume.metadata
        try:
            await self._folders.remove(volume)
        except OSError as error:
            about = Reference.to(VOLUMES, known.name, "", known.uid)
            self._events.event(about, "VolumeFailedDelete", str(error), warning=True)
            await self._write(volume, "Failed")
            return
        await self._client.delete(VOLUMES, known.name, uid=known.uid)

    async def _write(self, volume: PersistentVolume, phase: str) -> None:
        status: JsonObject = {
            "phase": phase,
            "lastPhaseTransitionTime": rfc3339(self._clock.now()),
        }
        body: JsonObject = {"metadata": {"uid": volume.metadata.uid}, "status": status}
        await self._client.patch(VOLUMES, volume.metadata.name, body, subresource="status")


def _claim_of(volume: PersistentVolume) -> Iterable[Key]:
    reference = volume.spec.claim_ref
    return () if reference is None else ((reference.namespace, reference.name),)
