"""Removes the tracking finalizer of pods without a Job that could count them."""

from kilonova.kube import Client, Controller, Reflector, Watch
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.batch.job.pods.claims import build_finalizer_removal, patch_pod
from kilonova.local.controllers.batch.objects import TRACKING_FINALIZER, Job
from kilonova.local.objects.core import Pod


class OrphanPodController:
    """Releases tracked pods that have no Job, a finished one, or one with another uid."""

    def __init__(self, client: Client, jobs: Reflector[Job], pods: Reflector[Pod]) -> None:
        self._client = client
        self._jobs = jobs
        self._pods = pods

    def controller(self) -> Controller:
        return Controller(
            "orphaned job pods", self._reconcile, [Watch(self._pods, _enqueue_if_tracked)]
        )

    async def _reconcile(self, key: Key) -> None:
        await self._jobs.wait_for_sync()
        pod = self._pods.store.get(key)
        if pod is None or TRACKING_FINALIZER not in pod.metadata.finalizers:
            return
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "Job":
            job = self._jobs.store.get((pod.metadata.namespace, owner.name))
            same = job is not None and job.metadata.uid == owner.uid
            if (
                job is not None
                and same
                and (job.finished_condition is None or not job.is_managed_here)
            ):
                return
        await patch_pod(self._client, pod, build_finalizer_removal())


def _enqueue_if_tracked(pod: Pod) -> list[Key]:
    if TRACKING_FINALIZER not in pod.metadata.finalizers:
        return []
    return [(pod.metadata.namespace, pod.metadata.name)]
