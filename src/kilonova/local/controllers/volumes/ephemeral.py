"""Claims of generic ephemeral volumes, which are deleted with their pod."""

from collections.abc import Iterable

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, ApiStatusError, Client, Controller, Reflector, Watch
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.informers.object_keys import Key
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.controllers.volumes.objects import VOLUME_CLAIMS, VolumeClaim
from kilonova.local.controllers.volumes.protection import BY_VOLUME_CLAIM, index_by_volume_claim
from kilonova.local.objects.core import PODS, Pod, Volume
from kilonova.local.objects.indexes import add_index_once


def build_ephemeral_claim(pod: Pod, volume: Volume) -> JsonObject:
    """The claim to create for a volume of a pod."""
    assert volume.ephemeral is not None
    template = volume.ephemeral.volume_claim_template
    inherited = nested_object(template, "metadata")
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: JsonObject = {
        "name": volume.claim_name(pod.metadata.name),
        "ownerReferences": [owner],
        **{name: inherited[name] for name in ("labels", "annotations") if inherited.get(name)},
    }
    return {"metadata": metadata, "spec": nested_object(template, "spec")}


class EphemeralVolumeController:
    """Reconciles pods with such volumes; others cost a scan of their volumes."""

    def __init__(
        self,
        client: Client,
        pods: Reflector[Pod],
        claims: Reflector[VolumeClaim],
        events: EventRecorder,
    ) -> None:
        self._client = client
        self._pods = pods
        self._claims = claims
        self._events = events
        add_index_once(pods.store, BY_VOLUME_CLAIM, index_by_volume_claim)
        watches = [Watch(pods, _enqueue_if_ephemeral), Watch(claims, self._map_claim_to_pods)]
        self.controller = Controller("ephemeral volumes", self._reconcile, watches)

    def _map_claim_to_pods(self, claim: VolumeClaim) -> Iterable[Key]:
        key = (claim.metadata.namespace, claim.metadata.name)
        found = self._pods.store.by_index(BY_VOLUME_CLAIM, key)
        return [each for pod in found for each in _enqueue_if_ephemeral(pod)]

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.store.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                await self._ensure_claim(pod, volume)

    async def _ensure_claim(self, pod: Pod, volume: Volume) -> None:
        namespace, name = pod.metadata.namespace, volume.claim_name(pod.metadata.name) or ""
        claim = self._claims.store.get((namespace, name))
        if claim is None:
            try:
                await self._client.create(
                    VOLUME_CLAIMS, build_ephemeral_claim(pod, volume), namespace
                )
            except AlreadyExists:
                return  # the cache does not show it yet; its event enqueues the pod
            except ApiStatusError as error:
                self._record_failure(pod, volume, f"create PVC {name}: {error.message}")
                raise
            return
        owner = claim.metadata.controller
        if owner is None or owner.uid != pod.metadata.uid:
            where = f"{namespace}/{pod.metadata.name}"
            text = f"PVC {namespace}/{name} was not created for pod {where} (pod is not owner)"
            self._record_failure(pod, volume, text)

    def _record_failure(self, pod: Pod, volume: Volume, problem: str) -> None:
        metadata = pod.metadata
        about = ObjectReference.to(PODS, metadata.name, metadata.namespace, metadata.uid)
        text = f"ephemeral volume {volume.name}: {problem}"
        self._events.event(about, "FailedBinding", text, warning=True)


def _enqueue_if_ephemeral(pod: Pod) -> Iterable[Key]:
    if any(volume.ephemeral is not None for volume in pod.spec.volumes):
        return ((pod.metadata.namespace, pod.metadata.name),)
    return ()
