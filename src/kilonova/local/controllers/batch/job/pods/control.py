"""Creates and deletes a Job's pods, and records events."""

import asyncio
from collections.abc import Sequence

from kilonova.api.json import JsonObject
from kilonova.kube import ApiStatusError, Client, Conflict, KubeError, NotFound
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.local.controllers.batch.job.expectations import JobExpectations
from kilonova.local.controllers.batch.job.pods.claims import build_finalizer_removal, patch_pod
from kilonova.local.controllers.batch.objects import JOBS, NEW_PODS, Job
from kilonova.local.objects.core import PODS, Pod

_MAX_BATCH = 16


class JobPodControl:
    """Writes to a Job's pods. All writes of a call are attempted; the first error is reported."""

    def __init__(self, client: Client, events: EventRecorder) -> None:
        self._client = client
        self._events = events

    async def create(
        self, job: Job, pods: Sequence[JsonObject], expectations: JobExpectations
    ) -> tuple[int, KubeError | None]:
        """Create pods with slow start, doubling the batch each time; returns how many were created.

        After an error (a quota, say) the remaining pods are not attempted.
        """
        done, size = 0, 1
        while done < len(pods):
            batch = pods[done : done + size]
            failures = [
                error
                for error in await asyncio.gather(
                    *(self._create(job, pod, expectations) for pod in batch)
                )
                if error is not None
            ]
            if failures:
                return done + len(batch) - len(failures), failures[0]
            done += len(batch)
            size = min(2 * size, _MAX_BATCH)
        return done, None

    async def _create(
        self, job: Job, pod: JsonObject, expectations: JobExpectations
    ) -> KubeError | None:
        try:
            made = await self._client.create(NEW_PODS, pod, job.metadata.namespace)
        except KubeError as error:
            if not _is_namespace_terminating_error(error):
                self._record_event(
                    job, "FailedCreate", f"Error creating: {_error_message(error)}", warning=True
                )
            return error
        expectations.record_creation(made["metadata"]["resourceVersion"])
        self._record_event(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return None

    async def delete(self, job: Job, pods: Sequence[Pod], expectations: JobExpectations) -> None:
        """Delete pods; their finalizers stay. Raises the first error after all were attempted."""
        failures = [error for pod in pods if (error := await self._delete(job, pod, expectations))]
        if failures:
            raise failures[0]

    async def _delete(self, job: Job, pod: Pod, expectations: JobExpectations) -> KubeError | None:
        metadata = pod.metadata
        try:
            await self._client.delete(PODS, metadata.name, metadata.namespace, uid=metadata.uid)
        except (NotFound, Conflict):
            return None  # deleted, or replaced by another of that name
        except KubeError as error:
            self._record_event(
                job, "FailedDelete", f"Error deleting: {_error_message(error)}", warning=True
            )
            return error
        expectations.deleted.add(metadata.uid)
        self._record_event(job, "SuccessfulDelete", f"Deleted pod: {metadata.name}")
        return None

    async def remove_finalizers(self, pods: Sequence[Pod], expectations: JobExpectations) -> None:
        """Remove the Job's finalizer from pods."""
        for pod in pods:
            await patch_pod(self._client, pod, build_finalizer_removal())
            expectations.released.add(pod.metadata.uid)

    def _record_event(self, job: Job, reason: str, message: str, *, warning: bool = False) -> None:
        self._events.event(object_reference(job), reason, message, warning=warning)


def object_reference(job: Job) -> ObjectReference:
    """A Job, as events refer to it."""
    metadata = job.metadata
    return ObjectReference.to(JOBS, metadata.name, metadata.namespace, metadata.uid)


def _error_message(error: KubeError) -> str:
    return error.message if isinstance(error, ApiStatusError) else str(error)


def _is_namespace_terminating_error(error: KubeError) -> bool:
    causes = error.causes if isinstance(error, ApiStatusError) else []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
