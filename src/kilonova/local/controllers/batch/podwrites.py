"""Creates and deletes a job's pods, and tells of it."""

import asyncio
from collections.abc import Sequence

from kilonova.api.json import JsonObject
from kilonova.kube import ApiStatusError, Client, Conflict, KubeError, NotFound
from kilonova.kube.events import Recorder, Reference
from kilonova.local.controllers.batch.claims import patch_pod, without_tracking
from kilonova.local.controllers.batch.objects import JOBS, NEW_PODS, Job
from kilonova.local.controllers.batch.unseen import Unseen
from kilonova.local.controllers.objects import PODS, Pod

_MOST_TOGETHER = 16


class PodWrites:
    """What a job does to pods. All writes of a call are tried; the first failure is told."""

    def __init__(self, client: Client, events: Recorder) -> None:
        self._client = client
        self._events = events

    async def create(
        self, job: Job, pods: Sequence[JsonObject], unseen: Unseen
    ) -> tuple[int, KubeError | None]:
        """Create pods, a few at first and twice as many each time: how many there are now.

        Where one is refused (a quota, say), the rest would be too, and is not tried.
        """
        done, size = 0, 1
        while done < len(pods):
            batch = pods[done : done + size]
            failures = [
                error
                for error in await asyncio.gather(
                    *(self._create(job, pod, unseen) for pod in batch)
                )
                if error is not None
            ]
            if failures:
                return done + len(batch) - len(failures), failures[0]
            done += len(batch)
            size = min(2 * size, _MOST_TOGETHER)
        return done, None

    async def _create(self, job: Job, pod: JsonObject, unseen: Unseen) -> KubeError | None:
        try:
            made = await self._client.create(NEW_PODS, pod, job.metadata.namespace)
        except KubeError as error:
            if not _namespace_is_going(error):
                self._tell(job, "FailedCreate", f"Error creating: {_text(error)}", warning=True)
            return error
        unseen.created(made["metadata"]["resourceVersion"])
        self._tell(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return None

    async def delete(self, job: Job, pods: Sequence[Pod], unseen: Unseen) -> None:
        """Delete pods; their finalizers stay. Raises the first failure, when all were tried."""
        failures = [error for pod in pods if (error := await self._delete(job, pod, unseen))]
        if failures:
            raise failures[0]

    async def _delete(self, job: Job, pod: Pod, unseen: Unseen) -> KubeError | None:
        known = pod.metadata
        try:
            await self._client.delete(PODS, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            return None  # gone, or another of that name
        except KubeError as error:
            self._tell(job, "FailedDelete", f"Error deleting: {_text(error)}", warning=True)
            return error
        unseen.deleted.add(known.uid)
        self._tell(job, "SuccessfulDelete", f"Deleted pod: {known.name}")
        return None

    async def release(self, pods: Sequence[Pod], unseen: Unseen) -> None:
        """Take the job's finalizer from pods."""
        for pod in pods:
            await patch_pod(self._client, pod, without_tracking())
            unseen.released.add(pod.metadata.uid)

    def _tell(self, job: Job, reason: str, message: str, *, warning: bool = False) -> None:
        self._events.event(reference(job), reason, message, warning=warning)


def reference(job: Job) -> Reference:
    """A job, as events name it."""
    known = job.metadata
    return Reference.to(JOBS, known.name, known.namespace, known.uid)


def _text(error: KubeError) -> str:
    return error.message if isinstance(error, ApiStatusError) else str(error)


def _namespace_is_going(error: KubeError) -> bool:
    causes = error.causes if isinstance(error, ApiStatusError) else []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
