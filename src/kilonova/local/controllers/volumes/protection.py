"""Claims that a pod uses, and volumes that a claim has, stay until that is over."""

from collections.abc import Iterable
from typing import Any

from kilonova.api.meta import Metadata
from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Resource, Watch
from kilonova.kube.identity import Key
from kilonova.local.controllers.indexes import add_index_once
from kilonova.local.controllers.objects import Pod
from kilonova.local.controllers.volumes.objects import (
    VOLUME_CLAIMS,
    VOLUMES,
    PersistentVolume,
    VolumeClaim,
)

OF_CLAIMS = "kubernetes.io/pvc-protection"
OF_VOLUMES = "kubernetes.io/pv-protection"
BY_VOLUME_CLAIM = "volume claim"


def claims_of(pod: Pod) -> Iterable[Key]:
    """The claims behind a pod's volumes, as an index wants them."""
    known = pod.metadata
    names = (volume.claim_name(known.name) for volume in pod.spec.volumes)
    return [(known.namespace, name) for name in names if name is not None]


def is_used(claim: VolumeClaim, pods: Iterable[Pod]) -> bool:
    """Whether one of these pods, which name the claim, still has it.

    A pod that is not placed yet will not be started with a claim that goes. Only the pod that an
    ephemeral volume was made for has it; once that is shut down, it need not be gone.
    """
    return any(pod.spec.node_name and _has(pod, claim) for pod in pods)


def _has(pod: Pod, claim: VolumeClaim) -> bool:
    named, made = False, False
    for volume in pod.spec.volumes:
        if volume.claim_name(pod.metadata.name) == claim.metadata.name:
            made = made or volume.ephemeral is not None
            named = named or volume.persistent_volume_claim is not None
    if named or not made:
        return named
    owner = claim.metadata.controller
    known = pod.metadata
    shut_down = known.deletion_timestamp is not None and known.deletion_grace_period_seconds == 0
    return owner is not None and owner.uid == known.uid and not shut_down


class ClaimProtection:
    """Lets claims go that no pod uses."""

    def __init__(
        self, client: Client, claims: Reflector[VolumeClaim], pods: Reflector[Pod]
    ) -> None:
        self._client = client
        self._claims = claims
        self._pods = pods
        add_index_once(pods.store, BY_VOLUME_CLAIM, claims_of)
        watches = [Watch(claims), Watch(pods, self._going)]
        self.controller = Controller("volume claim protection", self._reconcile, watches)

    def _going(self, pod: Pod) -> Iterable[Key]:
        found = [(key, self._claims.store.get(key)) for key in claims_of(pod)]
        return [key for key, claim in found if claim and claim.metadata.deletion_timestamp]

    async def _reconcile(self, key: Key) -> None:
        claim = self._claims.store.get(key)
        if claim is None or claim.metadata.deletion_timestamp is None:
            return
        if not is_used(claim, self._pods.store.find(BY_VOLUME_CLAIM, key)):
            await _release(self._client, VOLUME_CLAIMS, claim.metadata, OF_CLAIMS)


class VolumeProtection:
    """Lets volumes go that no claim has."""

    def __init__(self, client: Client, volumes: Reflector[PersistentVolume]) -> None:
        self._client = client
        self._volumes = volumes
        self.controller = Controller("volume protection", self._reconcile, [Watch(volumes)])

    async def _reconcile(self, key: Key) -> None:
        volume = self._volumes.store.get(key)
        if volume is None or volume.metadata.deletion_timestamp is None:
            return
        if volume.status.phase != "Bound":
            await _release(self._client, VOLUMES, volume.metadata, OF_VOLUMES)


async def _release(
    client: Client,
    resource: Resource[Any],
    known: Metadata,
    finalizer: str,
) -> None:
    if finalizer not in known.finalizers:
        return
    kept = [each for each in known.finalizers if each != finalizer]
    metadata = {
        "uid": known.uid,
        "resourceVersion": known.resource_version,
        "finalizers": kept or None,
    }
    namespace = known.namespace or None
    try:
        await client.patch(resource, known.name, {"metadata": metadata}, namespace)
    except (NotFound, Conflict):
        return  # gone, or changed, which is an event of its own
