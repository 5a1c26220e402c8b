"""Protects claims in use by a pod, and volumes bound to a claim, from deletion."""

from collections.abc import Iterable
from typing import Any

from kilonova.api.meta import Metadata
from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Resource, Watch
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.volumes.objects import (
    VOLUME_CLAIMS,
    VOLUMES,
    PersistentVolume,
    VolumeClaim,
)
from kilonova.local.objects.core import Pod
from kilonova.local.objects.indexes import add_index_once

CLAIM_PROTECTION_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION_FINALIZER = "kubernetes.io/pv-protection"
BY_VOLUME_CLAIM = "volume claim"


def index_by_volume_claim(pod: Pod) -> Iterable[Key]:
    """The claims of a pod's volumes, as index values."""
    metadata = pod.metadata
    names = (volume.claim_name(metadata.name) for volume in pod.spec.volumes)
    return [(metadata.namespace, name) for name in names if name is not None]


def is_used(claim: VolumeClaim, pods: Iterable[Pod]) -> bool:
    """Whether one of these pods, which name the claim, still uses it.

    A pod that is not bound yet will not be started with a claim that is being deleted. An ephemeral
    claim is used only by the pod it was created for; it is released when that pod has ended, even
    if the pod still exists.
    """
    return any(pod.spec.node_name and _uses_claim(pod, claim) for pod in pods)


def _uses_claim(pod: Pod, claim: VolumeClaim) -> bool:
    named, made = False, False
    for volume in pod.spec.volumes:
        if volume.claim_name(pod.metadata.name) == claim.metadata.name:
            made = made or volume.ephemeral is not None
            named = named or volume.persistent_volume_claim is not None
    if named or not made:
        return named
    owner = claim.metadata.controller
    metadata = pod.metadata
    shut_down = (
        metadata.deletion_timestamp is not None and metadata.deletion_grace_period_seconds == 0
    )
    return owner is not None and owner.uid == metadata.uid and not shut_down


class ClaimProtectionController:
    """Removes the finalizer of claims that no pod uses."""

    def __init__(
        self, client: Client, claims: Reflector[VolumeClaim], pods: Reflector[Pod]
    ) -> None:
        self._client = client
        self._claims = claims
        self._pods = pods
        add_index_once(pods.store, BY_VOLUME_CLAIM, index_by_volume_claim)
        watches = [Watch(claims), Watch(pods, self._map_pod_to_claims)]
        self.controller = Controller("volume claim protection", self._reconcile, watches)

    def _map_pod_to_claims(self, pod: Pod) -> Iterable[Key]:
        found = [(key, self._claims.store.get(key)) for key in index_by_volume_claim(pod)]
        return [key for key, claim in found if claim and claim.metadata.deletion_timestamp]

    async def _reconcile(self, key: Key) -> None:
        claim = self._claims.store.get(key)
        if claim is None or claim.metadata.deletion_timestamp is None:
            return
        if not is_used(claim, self._pods.store.by_index(BY_VOLUME_CLAIM, key)):
            await _remove_finalizer(
                self._client, VOLUME_CLAIMS, claim.metadata, CLAIM_PROTECTION_FINALIZER
            )


class VolumeProtectionController:
    """Removes the finalizer of volumes that are not bound."""

    def __init__(self, client: Client, volumes: Reflector[PersistentVolume]) -> None:
        self._client = client
        self._volumes = volumes
        self.controller = Controller("volume protection", self._reconcile, [Watch(volumes)])

    async def _reconcile(self, key: Key) -> None:
        volume = self._volumes.store.get(key)
        if volume is None or volume.metadata.deletion_timestamp is None:
            return
        if volume.status.phase != "Bound":
            await _remove_finalizer(
                self._client, VOLUMES, volume.metadata, VOLUME_PROTECTION_FINALIZER
            )


async def _remove_finalizer(
    client: Client,
    resource: Resource[Any],
    object_metadata: Metadata,
    finalizer: str,
) -> None:
    if finalizer not in object_metadata.finalizers:
        return
    remaining = [each for each in object_metadata.finalizers if each != finalizer]
    metadata = {
        "uid": object_metadata.uid,
        "resourceVersion": object_metadata.resource_version,
        "finalizers": remaining or None,
    }
    namespace = object_metadata.namespace or None
    try:
        await client.patch(resource, object_metadata.name, {"metadata": metadata}, namespace)
    except (NotFound, Conflict):
        return  # deleted, or changed: its event follows
