"""The job controller: pods that run to an end, replaced when they fail, counted once each.

One pass brings the number of pods in line, takes down in the status which pods have ended,
removes their finalizers, and makes numbers of them. Each write carries the version that the
decision rests on; a pass that was cut off anywhere is simply done again.
"""

from datetime import datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.kube import Client, Controller, KubeError, Reflector, Result, Watch
from kilonova.kube.backoff import Backoff as RetryBackoff
from kilonova.kube.events import Recorder
from kilonova.kube.identity import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.batch.claims import TRACKED, Claims
from kilonova.local.controllers.batch.failures import Backoff, has_failed
from kilonova.local.controllers.batch.objects import JOBS, Condition, Job, JobStatus
from kilonova.local.controllers.batch.pods import changes
from kilonova.local.controllers.batch.podwrites import PodWrites, reference
from kilonova.local.controllers.batch.tally import Tally, tally
from kilonova.local.controllers.batch.tracking import concluded, counted, track
from kilonova.local.controllers.batch.unseen import Unseen
from kilonova.local.controllers.batch.verdict import (
    completion,
    condition,
    deadline,
    verdict,
    with_condition,
)
from kilonova.local.controllers.indexes import BY_CONTROLLER
from kilonova.local.controllers.objects import Pod

_WORKERS = 5
_TOGETHER = 0.25
"""Changes of a job's pods within so many seconds are looked at together."""

replace = msgspec.structs.replace


class _Memory(msgspec.Struct):
    """What is known of a job beside the API; all of it can be had again from there."""

    uid: str
    unseen: Unseen
    backoff: Backoff
    looked: float = float("-inf")


class JobController:
    """Runs jobs."""

    def __init__(
        self,
        client: Client,
        jobs: Reflector[Job],
        pods: Reflector[Pod],
        events: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._pods = pods
        self._events = events
        self._clock = clock
        self._claims = Claims(client, pods)
        self._writes = PodWrites(client, events)
        self._memory: dict[Key, _Memory] = {}

    def controller(self) -> Controller:
        return Controller(
            "jobs",
            self._reconcile,
            [Watch(self._jobs), Watch(self._pods, job_of)],
            workers=_WORKERS,
            backoff=RetryBackoff(1.0, 60.0),
        )

    async def _reconcile(self, key: Key) -> Result | None:
        job = self._jobs.store.get(key)
        if job is None or not job.ours or job.finish is not None:
            self._memory.pop(key, None)
            await self._release_others(key, job)
            return None
        memory = self._remembered(key, job)
        soon = memory.looked + _TOGETHER - self._clock.monotonic()
        if soon > 0:
            return Result(soon)
        pods = await self._claims.pods_of(job)
        if pods is None:
            return None
        memory.unseen.look(pods)
        if not memory.unseen.is_seen(job, self._pods):
            return None  # the events of those writes come
        memory.looked = self._clock.monotonic()
        return await self._advance(job, pods, memory)

    def _remembered(self, key: Key, job: Job) -> _Memory:
        known = self._memory.get(key)
        if known is None or known.uid != job.metadata.uid:
            known = self._memory[key] = _Memory(job.metadata.uid, Unseen(), Backoff())
            pods = self._pods.store.find(BY_CONTROLLER, job.metadata.uid)
            known.backoff = Backoff().after(
                [pod for pod in pods if pod.status.phase == "Succeeded"],
                [pod for pod in pods if has_failed(pod, job)],
            )
        return known

    async def _release_others(self, key: Key, job: Job | None) -> None:
        """Pods that no running job of this name tracks are free to go."""
        if job is not None and not job.ours:
            return
        await self._writes.release(self._pods.store.find(TRACKED, key), Unseen())

    async def _advance(self, job: Job, pods: list[Pod], memory: _Memory) -> Result | None:
        now, before = self._clock.now(), job
        if job.status.start_time is None and not job.spec.suspend:
            job = Job(job.metadata, job.spec, replace(job.status, start_time=rfc3339(now)))
        found = tally(job, pods, memory.unseen.released)
        backoff = memory.backoff.after(found.new_succeeded, found.new_failed)
        ending = verdict(found, now)
        if ending is not None:
            status, failure, wait = await self._end(found, memory.unseen)
            ending = ending if failure is None else None
        else:
            status, failure, wait = await self._go_on(found, backoff, now, memory.unseen)
            ending = completion(found, status.active, now)
            if ending is None and not job.metadata.deletion_timestamp:
                status = self._told_suspension(job, status, now)
        await self._count(before, found, status, ending, memory, backoff)
        if failure is not None:
            raise failure
        limit = deadline(job)
        waits = [wait] if wait else []
        if limit is not None and ending is None:
            waits.append((limit - now).total_seconds())
        return Result(min(waits)) if waits else None

    async def _end(self, found: Tally, unseen: Unseen) -> tuple[JobStatus, KubeError | None, float]:
        """Delete what still runs of a job that is over."""
        status = found.job.status
        failure: KubeError | None = None
        leaving = len(found.active)
        try:
            await self._writes.delete(found.job, found.active, unseen)
        except KubeError as error:
            failure, leaving = error, 0
        return _numbers(status, found, found.active[leaving:], leaving), failure, 0.0

    async def _go_on(
        self, found: Tally, backoff: Backoff, now: datetime, unseen: Unseen
    ) -> tuple[JobStatus, KubeError | None, float]:
        """Create or delete pods until there are as many as wanted."""
        job = found.job
        if job.metadata.deletion_timestamp:
            return _numbers(job.status, found, found.active, 0), None, 0.0
        wanted = changes(found, backoff, now)
        failure: KubeError | None = None
        if wanted.delete:
            await self._writes.release(wanted.delete, unseen)
            await self._writes.delete(job, wanted.delete, unseen)
        created, failure = await self._writes.create(job, wanted.create, unseen)
        gone = {pod.metadata.uid for pod in wanted.delete}
        left = tuple(pod for pod in found.active if pod.metadata.uid not in gone)
        status = _numbers(job.status, found, left, len(gone))
        return replace(status, active=status.active + created), failure, wanted.wait

    def _told_suspension(self, job: Job, status: JobStatus, now: datetime) -> JobStatus:
        """Say in the status that the job is suspended, or not any more."""
        if job.spec.suspend:
            wanted = condition("Suspended", "JobSuspended", "Job suspended", now)
        else:
            wanted = condition("Suspended", "JobResumed", "Job resumed", now, "False")
        conditions = with_condition(status.conditions, wanted)
        if conditions is status.conditions:
            return status
        reason = "Suspended" if job.spec.suspend else "Resumed"
        self._events.event(reference(job), reason, wanted.message)
        start = None if job.spec.suspend else rfc3339(now)
        return replace(status, conditions=conditions, start_time=start)

    async def _count(
        self,
        before: Job,
        found: Tally,
        status: JobStatus,
        ending: Condition | None,
        memory: _Memory,
        backoff: Backoff,
    ) -> None:
        """Write down what has ended, remove finalizers, and make numbers of it."""
        unseen = memory.unseen
        tracked = track(found, status, ending)
        version = await self._write(before, before.status, tracked.status, unseen)
        memory.backoff = backoff
        await self._writes.release(tracked.release, unseen)
        left = tracked.tracked - {pod.metadata.uid for pod in tracked.release}
        numbered = counted(tracked.status, left)
        over = concluded(numbered, tracked.finish, status.terminating or 0)
        current = Job(replace(before.metadata, resource_version=version), before.spec)
        await self._write(current, tracked.status, over or numbered, unseen)
        if over is not None and tracked.finish is not None:
            self._tell_end(found.job, over, tracked.finish)

    async def _write(self, job: Job, old: JobStatus, new: JobStatus, unseen: Unseen) -> str:
        """Write the fields of the status that differ; the job's version afterwards."""
        known = job.metadata
        changed = _difference(msgspec.to_builtins(old), msgspec.to_builtins(new))
        if not changed:
            return known.resource_version
        body = {
            "metadata": {"uid": known.uid, "resourceVersion": known.resource_version},
            "status": changed,
        }
        written = await self._client.patch(
            JOBS, known.name, body, known.namespace, subresource="status"
        )
        unseen.job = int(written.metadata.resource_version)
        return written.metadata.resource_version

    def _tell_end(self, job: Job, status: JobStatus, finish: Condition) -> None:
        about, wanted = reference(job), job.spec.completions
        if finish.type == "Failed":
            self._events.event(about, finish.reason, finish.message, warning=True)
            return
        if wanted is not None and status.succeeded > wanted:
            text = "Too many succeeded pods running after completion count reached"
            self._events.event(about, "TooManySucceededPods", text, warning=True)
        self._events.event(about, "Completed", "Job completed")


def job_of(pod: Pod) -> list[Key]:
    """The job that a pod works for, by name."""
    owner = pod.metadata.controller
    if owner is None or owner.kind != "Job":
        return []
    return [(pod.metadata.namespace, owner.name)]


def _numbers(status: JobStatus, found: Tally, active: tuple[Pod, ...], leaving: int) -> JobStatus:
    return replace(
        status,
        active=len(active),
        ready=sum(pod.ready for pod in active),
        terminating=found.terminating + leaving,
    )


def _difference(old: JsonObject, new: JsonObject) -> JsonObject:
    """A merge patch from one status to another; what is not there any more becomes null."""
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    gone: JsonObject = {name: None for name in old if name not in new}
    uncounted = changed.get("uncountedTerminatedPods")
    if uncounted is not None:
        # Merged into the present one: lists that are empty now have to be taken out of it.
        changed["uncountedTerminatedPods"] = {"succeeded": None, "failed": None} | uncounted
    return {**changed, **gone}
