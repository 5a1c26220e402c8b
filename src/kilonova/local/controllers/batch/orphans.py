"""Pods that still carry the finalizer of a job that is not there to count them: it goes."""

from kilonova.kube import Client, Controller, Reflector, Watch
from kilonova.kube.identity import Key
from kilonova.local.controllers.batch.claims import patch_pod, without_tracking
from kilonova.local.controllers.batch.objects import TRACKING, Job
from kilonova.local.controllers.objects import Pod


class OrphanedPods:
    """Frees tracked pods that have no job, or one that is over, or one of another uid."""

    def __init__(self, client: Client, jobs: Reflector[Job], pods: Reflector[Pod]) -> None:
        self._client = client
        self._jobs = jobs
        self._pods = pods

    def controller(self) -> Controller:
        return Controller("pods of no job", self._reconcile, [Watch(self._pods, _if_tracked)])

    async def _reconcile(self, key: Key) -> None:
        await self._jobs.wait_synced()
        pod = self._pods.store.get(key)
        if pod is None or TRACKING not in pod.metadata.finalizers:
            return
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "Job":
            job = self._jobs.store.get((pod.metadata.namespace, owner.name))
            same = job is not None and job.metadata.uid == owner.uid
            if job is not None and same and (job.finish is None or not job.ours):
                return
        await patch_pod(self._client, pod, without_tracking())


def _if_tracked(pod: Pod) -> list[Key]:
    if TRACKING not in pod.metadata.finalizers:
        return []
    return [(pod.metadata.namespace, pod.metadata.name)]
