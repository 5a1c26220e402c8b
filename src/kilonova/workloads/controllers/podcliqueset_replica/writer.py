"""Writes the plan of a replica, and records events."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from kilonova.api.grove import PodCliqueSet
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import (
    AlreadyExists,
    ApiStatusError,
    Client,
    Conflict,
    NotFound,
    Reflector,
    Resource,
)
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import SlowStart, raise_first_failure
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.status import patch_status
from kilonova.workloads import resources
from kilonova.workloads.caches import Caches
from kilonova.workloads.controllers.podcliqueset_replica.patches import build_label_repair_patch
from kilonova.workloads.controllers.podcliqueset_replica.write_plan import (
    Create,
    Delete,
    Patch,
    Write,
    WritePlan,
)
from kilonova.workloads.resources import SETS

_KINDS_WITH_EVENTS = frozenset({"PodClique", "PodCliqueScalingGroup", "PodGang", "ComputeDomain"})
"""Kinds with events for creation and deletion; for others only failures are recorded."""

_SYNC_ERROR_CODES = {
    "PodGang": "ERR_SYNC_POD_GANGS",
    "PodClique": "ERR_SYNC_POD_CLIQUES",
    "PodCliqueScalingGroup": "ERR_SYNC_SCALING_GROUPS",
    "Service": "ERR_SYNC_SERVICES",
    "HorizontalPodAutoscaler": "ERR_SYNC_AUTOSCALERS",
    "ResourceClaim": "ERR_SYNC_RESOURCE_CLAIMS",
    "ResourceClaimTemplate": "ERR_SYNC_RESOURCE_CLAIMS",
    "ComputeDomain": "ERR_SYNC_COMPUTE_DOMAINS",
}


class WriteFailed(Exception):
    """A write that the API server rejected."""

    def __init__(
        self, verb: str, resource: Resource[Any], name: str, error: ApiStatusError
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.code = _SYNC_ERROR_CODES[resource.kind]
        self.reason = f"{resource.kind}{verb}Failed"
        self.description = f"Cannot {verb.lower()} {resource.kind} {name}: {error.message}"


class ReplicaWriter:
    """Writes objects of replicas. Each method waits until the caches show its writes."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        recorder: EventRecorder,
        monotonic: Callable[[], float],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._slow_start = SlowStart(monotonic)
        kinds_: list[tuple[Resource[Any], Reflector[Any] | None]] = [
            (resources.CLIQUES, caches.cliques),
            (resources.SCALING_GROUPS, caches.groups),
            (resources.GANGS, caches.gangs),
            (resources.SERVICES, caches.services),
            (resources.AUTOSCALERS, caches.autoscalers),
            (resources.RESOURCE_CLAIMS, caches.claims),
            (resources.COMPUTE_DOMAINS, caches.compute_domains),
        ]
        self._expectations = {
            resource.kind: Expectations(cache) for resource, cache in kinds_ if cache is not None
        }

    async def apply(self, plan: WritePlan, set_: PodCliqueSet) -> None:
        """Write the next part of a plan; raises `WriteFailed` at the end if a write failed."""
        namespace, name = set_.metadata.namespace, set_.metadata.name
        done: list[Write] = []
        kinds: defaultdict[str, list[Callable[[], Awaitable[None]]]] = defaultdict(list)
        for each in plan.next_creates:
            kinds[each.resource.kind].append(partial(self._create, each, namespace, done))
        creates = (
            self._slow_start.run((kind, namespace, name), calls) for kind, calls in kinds.items()
        )
        changes = self._patch_all(plan, namespace)
        removals = (self._delete(each, namespace, done) for each in plan.deletes)
        results = await asyncio.gather(*creates, changes, *removals, return_exceptions=True)
        self._record_write_events(set_, done)
        raise_first_failure(results)

    async def write_status(
        self,
        resource: Resource[Any],
        metadata: Metadata,
        patch: JsonObject,
        *,
        require_version: bool = False,
    ) -> None:
        """Write a status; ignored if the object is gone."""
        written = await patch_status(
            self._client, resource, metadata, patch, require_version=require_version
        )
        if written is not None:
            version = written.metadata.resource_version
            await self._expectations[resource.kind].wait_for_version(version)

    async def remove_finalizer(
        self, resource: Resource[Any], metadata: Metadata, finalizer: str
    ) -> None:
        """Remove the operator's finalizer from a deleted object."""
        remaining = [each for each in metadata.finalizers if each != finalizer]
        fields = {"finalizers": remaining, "resourceVersion": metadata.resource_version}
        try:
            changed = await self._client.patch(
                resource, metadata.name, {"metadata": fields}, metadata.namespace
            )
        except NotFound:
            return
        expectations = self._expectations[resource.kind]
        if remaining:
            await expectations.wait_for_version(changed.metadata.resource_version)
        else:
            await expectations.wait_for_removal((metadata.namespace, metadata.name), metadata.uid)

    def record_event(
        self,
        resource: Resource[Any],
        metadata: Metadata,
        reason: str,
        message: str,
        *,
        warning: bool = False,
    ) -> None:
        """Record an event about an object."""
        reference = ObjectReference.to(resource, metadata.name, metadata.namespace, metadata.uid)
        self._recorder.event(reference, reason, message, warning=warning)

    def record_failure_event(self, set_: PodCliqueSet, failure: WriteFailed) -> None:
        """Record an event about a failed write; a conflict is only retried."""
        if not isinstance(failure.error, Conflict):
            self.record_event(
                SETS, set_.metadata, failure.reason, failure.description, warning=True
            )

    async def _create(self, write: Create, namespace: str, done: list[Write]) -> None:
        try:
            created = await self._client.create(write.resource, write.body, namespace)
        except AlreadyExists as error:
            await self._restore_labels(write, namespace, error)
            return
        except ApiStatusError as error:
            raise WriteFailed("Create", write.resource, write.name, error) from error
        done.append(write)
        await self._expectations[write.resource.kind].wait_for_version(
            created.metadata.resource_version
        )

    async def _restore_labels(self, write: Create, namespace: str, error: AlreadyExists) -> None:
        """Restore the labels of an existing object that the caches do not show, if it is owned."""
        failure = WriteFailed("Create", write.resource, write.name, error)
        try:
            live = await self._client.get(write.resource, write.name, namespace)
        except ApiStatusError:
            raise failure from error
        body = build_label_repair_patch(live.metadata, write.body)
        if body is None:
            raise failure from error
        await self._patch(Patch(write.resource, live.metadata, body), namespace)

    async def _patch_all(self, plan: WritePlan, namespace: str) -> None:
        for wave in plan.patch_waves:
            calls = (self._patch(each, namespace) for each in wave)
            raise_first_failure(await asyncio.gather(*calls, return_exceptions=True))

    async def _patch(self, write: Patch, namespace: str) -> None:
        known = write.metadata
        own = {"uid": known.uid, **write.body.get("metadata", {})}
        try:
            changed = await self._client.patch(
                write.resource, known.name, {**write.body, "metadata": own}, namespace
            )
        except NotFound:
            return
        except ApiStatusError as error:
            raise WriteFailed("Update", write.resource, known.name, error) from error
        await self._expectations[write.resource.kind].wait_for_version(
            changed.metadata.resource_version
        )

    async def _delete(self, write: Delete, namespace: str, done: list[Write]) -> None:
        known = write.metadata
        try:
            await self._client.delete(write.resource, known.name, namespace, uid=known.uid)
        except (NotFound, Conflict):
            return
        except ApiStatusError as error:
            raise WriteFailed("Delete", write.resource, known.name, error) from error
        done.append(write)
        key = known.namespace, known.name
        await self._expectations[write.resource.kind].wait_for_deletion(key, known.uid)

    def _record_write_events(self, set_: PodCliqueSet, done: Sequence[Write]) -> None:
        """One event for all created objects of a kind, and one for all deleted ones."""
        by_reason: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for write in done:
            if write.resource.kind in _KINDS_WITH_EVENTS:
                verb = "Create" if isinstance(write, Create) else "Delete"
                by_reason[verb, write.resource.kind].append(write.name)
        for (verb, kind), names in by_reason.items():
            message = f"{verb}d {kind} {', '.join(sorted(names))}"
            self.record_event(SETS, set_.metadata, f"{kind}{verb}Successful", message)
