"""Whose a pod is: a job takes in the pods that its selector finds, and lets others go."""

from collections.abc import Iterable

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Conflict, NotFound, PatchKind, Reflector
from kilonova.local.controllers.batch.objects import CONTROLLER_UID, TRACKING, Job
from kilonova.local.controllers.batch.pods import owner_reference
from kilonova.local.controllers.indexes import BY_CONTROLLER, orphans
from kilonova.local.controllers.objects import PODS, Pod
from kilonova.local.selectors import label_selector

TRACKED = "tracked pods by job"
"""The index of pods that have the finalizer, under the namespace and name of their job."""


def index_pods(pods: Reflector[Pod]) -> None:
    """Add the index `TRACKED`."""
    pods.store.add_index(TRACKED, _tracked_for)


def _tracked_for(pod: Pod) -> Iterable[tuple[str, str]]:
    owner = pod.metadata.controller
    if owner is None or owner.kind != "Job" or TRACKING not in pod.metadata.finalizers:
        return ()
    return ((pod.metadata.namespace, owner.name),)


class Claims:
    """Finds a job's pods."""

    def __init__(self, client: Client, pods: Reflector[Pod]) -> None:
        self._client = client
        self._store = pods.store

    async def pods_of(self, job: Job) -> list[Pod] | None:
        """The pods that are the job's; None where some were taken in just now: wait for them."""
        owned = self._store.find(BY_CONTROLLER, job.metadata.uid)
        fits = label_selector(job.spec.selector).matches
        for pod in owned:
            if not fits(pod.metadata.labels) and not job.metadata.deletion_timestamp:
                await self._let_go(pod, job)
        candidates = [
            pod
            for pod in self._candidates(job)
            if fits(pod.metadata.labels) and not pod.metadata.deletion_timestamp
        ]
        for pod in candidates:
            await self._take_in(pod, job)
        return None if candidates else [pod for pod in owned if fits(pod.metadata.labels)]

    def _candidates(self, job: Job) -> list[Pod]:
        if job.metadata.deletion_timestamp:
            return []
        if job.spec.manual_selector:
            return self._store.find(BY_CONTROLLER, orphans(job.metadata.namespace))
        label = (CONTROLLER_UID, job.metadata.uid)
        return self._store.find(BY_CONTROLLER, orphans(job.metadata.namespace, label))

    async def _take_in(self, pod: Pod, job: Job) -> None:
        owners = {"ownerReferences": [owner_reference(job)], "finalizers": [TRACKING]}
        await patch_pod(self._client, pod, owners)

    async def _let_go(self, pod: Pod, job: Job) -> None:
        leaving = {"$patch": "delete", "uid": job.metadata.uid}
        await patch_pod(self._client, pod, {"ownerReferences": [leaving], **without_tracking()})


def without_tracking() -> JsonObject:
    """The part of a patch of metadata that takes the finalizer away."""
    return {"$deleteFromPrimitiveList/finalizers": [TRACKING]}


async def patch_pod(client: Client, pod: Pod, metadata: JsonObject) -> None:
    """Change a pod's metadata, if it is still that pod."""
    known = pod.metadata
    try:
        await client.patch(
            PODS,
            known.name,
            {"metadata": {"uid": known.uid, **metadata}},
            known.namespace,
            kind=PatchKind.STRATEGIC,
        )
    except (NotFound, Conflict):
        return  # gone, or another of that name: its event tells
