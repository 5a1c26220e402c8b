"""A Job adopts the pods that its selector matches, and releases others."""

from collections.abc import Iterable

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Conflict, NotFound, PatchType, Reflector
from kilonova.local.apimachinery.selectors import selector_from_object
from kilonova.local.controllers.batch.job.pods.plan import build_owner_reference
from kilonova.local.controllers.batch.objects import CONTROLLER_UID, TRACKING_FINALIZER, Job
from kilonova.local.controllers.shared.indexes import BY_CONTROLLER, orphan_index_key
from kilonova.local.objects.core import PODS, Pod

TRACKED_PODS_INDEX = "tracked pods by job"
"""The index of pods with the finalizer, by namespace and name of their Job."""


def add_tracked_pods_index(pods: Reflector[Pod]) -> None:
    """Add the index `TRACKED_PODS_INDEX`."""
    pods.store.add_index(TRACKED_PODS_INDEX, _index_by_job)


def _index_by_job(pod: Pod) -> Iterable[tuple[str, str]]:
    owner = pod.metadata.controller
    if owner is None or owner.kind != "Job" or TRACKING_FINALIZER not in pod.metadata.finalizers:
        return ()
    return ((pod.metadata.namespace, owner.name),)


class JobPodClaimer:
    """Finds a Job's pods."""

    def __init__(self, client: Client, pods: Reflector[Pod]) -> None:
        self._client = client
        self._store = pods.store

    async def claim_pods(self, job: Job) -> list[Pod] | None:
        """The Job's pods; None if some were adopted just now and have to be observed first."""
        owned = self._store.by_index(BY_CONTROLLER, job.metadata.uid)
        fits = selector_from_object(job.spec.selector).matches
        for pod in owned:
            if not fits(pod.metadata.labels) and not job.metadata.deletion_timestamp:
                await self._release(pod, job)
        candidates = [
            pod
            for pod in self._find_orphans(job)
            if fits(pod.metadata.labels) and not pod.metadata.deletion_timestamp
        ]
        for pod in candidates:
            await self._adopt(pod, job)
        return None if candidates else [pod for pod in owned if fits(pod.metadata.labels)]

    def _find_orphans(self, job: Job) -> list[Pod]:
        if job.metadata.deletion_timestamp:
            return []
        if job.spec.manual_selector:
            return self._store.by_index(BY_CONTROLLER, orphan_index_key(job.metadata.namespace))
        label = (CONTROLLER_UID, job.metadata.uid)
        return self._store.by_index(BY_CONTROLLER, orphan_index_key(job.metadata.namespace, label))

    async def _adopt(self, pod: Pod, job: Job) -> None:
        owners = {
            "ownerReferences": [build_owner_reference(job)],
            "finalizers": [TRACKING_FINALIZER],
        }
        await patch_pod(self._client, pod, owners)

    async def _release(self, pod: Pod, job: Job) -> None:
        removal = {"$patch": "delete", "uid": job.metadata.uid}
        await patch_pod(
            self._client, pod, {"ownerReferences": [removal], **build_finalizer_removal()}
        )


def build_finalizer_removal() -> JsonObject:
    """The metadata patch that removes the finalizer."""
    return {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}


async def patch_pod(client: Client, pod: Pod, metadata: JsonObject) -> None:
    """Patch a pod's metadata if its uid is unchanged."""
    known = pod.metadata
    try:
        await client.patch(
            PODS,
            known.name,
            {"metadata": {"uid": known.uid, **metadata}},
            known.namespace,
            patch_type=PatchType.STRATEGIC,
        )
    except (NotFound, Conflict):
        return  # deleted, or replaced by another of that name: its event will follow
