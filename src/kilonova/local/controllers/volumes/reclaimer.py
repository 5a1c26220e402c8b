"""Sets the phase of volumes, and deletes provisioned ones whose claim is deleted."""

from collections.abc import Iterable

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Watch
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.informers.object_keys import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.volumes.objects import (
    PROVISIONED_BY,
    VOLUME_CLAIMS,
    VOLUMES,
    PersistentVolume,
    VolumeClaim,
)
from kilonova.local.controllers.volumes.provisioner import PROVISIONER, VolumeDirectories

_BY_CLAIM = "claim of a volume"


def compute_phase(volume: PersistentVolume, claim: VolumeClaim | None) -> str:
    """The phase of a volume; `claim` is the one that it is bound to, if it exists."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return "Available"
    if claim is not None:
        return "Bound"
    return "Failed" if volume.status.phase == "Failed" else "Released"


def is_reclaimable(volume: PersistentVolume) -> bool:
    """Whether a provisioned volume is released and to be deleted."""
    return (
        volume.spec.persistent_volume_reclaim_policy == "Delete"
        and volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
        and volume.metadata.deletion_timestamp is None
    )


class VolumeReclaimController:
    """Reconciles volumes."""

    def __init__(
        self,
        client: Client,
        claims: Reflector[VolumeClaim],
        volumes: Reflector[PersistentVolume],
        directories: VolumeDirectories,
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._claims = claims
        self._volumes = volumes
        self._directories = directories
        self._events = events
        self._clock = clock
        volumes.store.add_index(_BY_CLAIM, _index_by_claim)
        watches = [Watch(volumes), Watch(claims, self._map_claim_to_volumes)]
        self.controller = Controller("volumes", self._reconcile, watches)

    def _map_claim_to_volumes(self, claim: VolumeClaim) -> Iterable[Key]:
        key = (claim.metadata.namespace, claim.metadata.name)
        return [("", each.metadata.name) for each in self._volumes.store.by_index(_BY_CLAIM, key)]

    async def _reconcile(self, key: Key) -> None:
        volume = self._volumes.store.get(key)
        if volume is None:
            return
        phase = compute_phase(volume, await self._find_claim(volume))
        try:
            if phase != volume.status.phase:
                await self._write_phase(volume, phase)
            if phase == "Released" and is_reclaimable(volume):
                await self._delete_volume(volume)
        except (NotFound, Conflict):
            return

    async def _find_claim(self, volume: PersistentVolume) -> VolumeClaim | None:
        """The claim of a volume. The cache may be stale: the server is asked before data is
        deleted.
        """
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

    async def _delete_volume(self, volume: PersistentVolume) -> None:
        metadata = volume.metadata
        try:
            await self._directories.remove(volume)
        except OSError as error:
            about = ObjectReference.to(VOLUMES, metadata.name, "", metadata.uid)
            self._events.event(about, "VolumeFailedDelete", str(error), warning=True)
            await self._write_phase(volume, "Failed")
            return
        await self._client.delete(VOLUMES, metadata.name, uid=metadata.uid)

    async def _write_phase(self, volume: PersistentVolume, phase: str) -> None:
        status: JsonObject = {
            "phase": phase,
            "lastPhaseTransitionTime": format_rfc3339(self._clock.now()),
        }
        body: JsonObject = {"metadata": {"uid": volume.metadata.uid}, "status": status}
        await self._client.patch(VOLUMES, volume.metadata.name, body, subresource="status")


def _index_by_claim(volume: PersistentVolume) -> Iterable[Key]:
    reference = volume.spec.claim_ref
    return () if reference is None else ((reference.namespace, reference.name),)
