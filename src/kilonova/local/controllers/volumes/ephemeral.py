"""Claims for volumes that live and go with one pod."""

from collections.abc import Iterable

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, ApiStatusError, Client, Controller, Reflector, Watch
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.local.controllers.indexes import add_index_once
from kilonova.local.controllers.objects import PODS, Pod, Volume
from kilonova.local.controllers.volumes.objects import VOLUME_CLAIMS, VolumeClaim
from kilonova.local.controllers.volumes.protection import BY_VOLUME_CLAIM, claims_of
from kilonova.local.kinds.walk import part


def ephemeral_claim(pod: Pod, volume: Volume) -> JsonObject:
    """The claim to create for a volume of a pod."""
    assert volume.ephemeral is not None
    template = volume.ephemeral.volume_claim_template
    inherited = part(template, "metadata")
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
    return {"metadata": metadata, "spec": part(template, "spec")}


class EphemeralVolumes:
    """Works on pods with such volumes; others cost a look at their list of volumes."""

    def __init__(
        self,
        client: Client,
        pods: Reflector[Pod],
        claims: Reflector[VolumeClaim],
        events: Recorder,
    ) -> None:
        self._client = client
        self._pods = pods
        self._claims = claims
        self._events = events
        add_index_once(pods.store, BY_VOLUME_CLAIM, claims_of)
        watches = [Watch(pods, _with_ephemeral), Watch(claims, self._users)]
        self.controller = Controller("ephemeral volumes", self._reconcile, watches)

    def _users(self, claim: VolumeClaim) -> Iterable[Key]:
        key = (claim.metadata.namespace, claim.metadata.name)
        found = self._pods.store.find(BY_VOLUME_CLAIM, key)
        return [each for pod in found for each in _with_ephemeral(pod)]

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.store.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                await self._ensure(pod, volume)

    async def _ensure(self, pod: Pod, volume: Volume) -> None:
        namespace, name = pod.metadata.namespace, volume.claim_name(pod.metadata.name) or ""
        claim = self._claims.store.get((namespace, name))
        if claim is None:
            try:
                await self._client.create(VOLUME_CLAIMS, ephemeral_claim(pod, volume), namespace)
            except AlreadyExists:
                return  # the cache has not seen it yet; when it does, we look again
            except ApiStatusError as error:
                self._complain(pod, volume, f"create PVC {name}: {error.message}")
                raise
            return
        owner = claim.metadata.controller
        if owner is None or owner.uid != pod.metadata.uid:
            where = f"{namespace}/{pod.metadata.name}"
            text = f"PVC {namespace}/{name} was not created for pod {where} (pod is not owner)"
            self._complain(pod, volume, text)

    def _complain(self, pod: Pod, volume: Volume, why: str) -> None:
        known = pod.metadata
        about = Reference.to(PODS, known.name, known.namespace, known.uid)
        text = f"ephemeral volume {volume.name}: {why}"
        self._events.event(about, "FailedBinding", text, warning=True)


def _with_ephemeral(pod: Pod) -> Iterable[Key]:
    if any(volume.ephemeral is not None for volume in pod.spec.volumes):
        return ((pod.metadata.namespace, pod.metadata.name),)
    return ()
