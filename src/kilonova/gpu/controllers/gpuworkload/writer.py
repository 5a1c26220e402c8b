"""Writes what differs between a workload's objects and what they should be.

Every write is idempotent, and waits until the caches show it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import cast

import msgspec

from kilonova.api.grove import names as grove_names
from kilonova.api.json import JsonObject
from kilonova.api.kgwe import GPUWorkload
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang, PodGangStatus
from kilonova.gpu.controllers.context import ControllerContext
from kilonova.gpu.controllers.gpuworkload.desire import WorkloadEvent, WorkloadPlan
from kilonova.gpu.controllers.gpuworkload.observed import ObservedWorkload
from kilonova.gpu.controllers.resources import (
    GANGS,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    WORKLOADS,
)
from kilonova.kube import AlreadyExists, Conflict, NotFound, PatchType
from kilonova.kube.client.merge_patch import needs_patch
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import SlowStart, raise_first_failure
from kilonova.kube.events import ObjectReference
from kilonova.kube.status import StatusWriter, apply_status, encode_condition
from kilonova.scheduler.objects.core_v1 import Pod

_UNGATE: JsonObject = {
    "spec": {"schedulingGates": [{"name": grove_names.POD_GANG_GATE, "$patch": "delete"}]}
}


class NameTaken(Exception):
    """An object that the workload needs exists, and belongs to something else."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"{kind} {name} belongs to another object: delete it, or rename the workload"
        )


class WorkloadWriter:
    """Applies plans."""

    def __init__(self, context: ControllerContext) -> None:
        caches = context.caches
        self._client = context.client
        self._recorder = context.recorder
        self._pods = Expectations(caches.pods)
        self._gangs = Expectations(caches.gangs)
        self._services = Expectations(caches.services)
        self._status = StatusWriter(context.client, WORKLOADS, Expectations(caches.workloads))
        self._slow_start = SlowStart(context.monotonic)
        self._priority_classes: set[str] = set()
        """Names of those that are known to exist: they are never changed."""

    async def apply(self, observed: ObservedWorkload, plan: WorkloadPlan) -> None:
        """Write a plan; raises the first error, after which the next plan goes on."""
        workload = observed.workload
        if plan.status_first:
            await self._status.write(workload, plan.status)
            self.record_events(workload, plan.events)
            return
        await self._delete_pods(plan.delete)
        if plan.delete_gang and observed.own_gang is not None:
            await self._delete_gang(observed.own_gang)
        if plan.priority_class is not None:
            await self._ensure_priority_class(plan.priority_class)
        if plan.service is not None:
            await self._apply_service(observed, plan.service)
        if plan.gang is not None:
            await self._apply_gang(observed, plan.gang)
        await self._create_pods(workload, plan.create)
        await self._ungate(plan.ungate)
        if plan.gang_status is not None and observed.own_gang is not None:
            await self._apply_gang_status(observed.own_gang, plan.gang_status)
        await self._status.write(workload, plan.status)
        self.record_events(workload, plan.events)

    def record_events(self, workload: GPUWorkload, events: Iterable[WorkloadEvent]) -> None:
        """Record events about a workload."""
        known = workload.metadata
        reference = ObjectReference.to(WORKLOADS, known.name, known.namespace, known.uid)
        for each in events:
            self._recorder.event(reference, each.reason, each.message, warning=each.is_warning)

    async def _delete_pods(self, pods: Sequence[Pod]) -> None:
        results = await asyncio.gather(*map(self._delete_pod, pods), return_exceptions=True)
        for pod, result in zip(pods, results, strict=True):
            if result is None:
                known = pod.metadata
                await self._pods.wait_for_deletion((known.namespace, known.name), known.uid)
        raise_first_failure(results)

    async def _delete_pod(self, pod: Pod) -> None:
        known = pod.metadata
        try:
            await self._client.delete(PODS, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            return  # gone, or another pod of that name

    async def _delete_gang(self, gang: PodGang) -> None:
        known = gang.metadata
        try:
            await self._client.delete(GANGS, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            return
        await self._gangs.wait_for_deletion((known.namespace, known.name), known.uid)

    async def _ensure_priority_class(self, wanted: JsonObject) -> None:
        name = wanted["metadata"]["name"]
        if name in self._priority_classes:
            return
        try:
            await self._client.create(PRIORITY_CLASSES, wanted)
        except AlreadyExists:
            existing = await self._client.get(PRIORITY_CLASSES, name)
            if existing.value != wanted["value"]:
                raise NameTaken("PriorityClass", name) from None
        self._priority_classes.add(name)

    async def _apply_service(self, observed: ObservedWorkload, wanted: JsonObject) -> None:
        live, known = observed.service, observed.workload.metadata
        if live is not None and not _is_owned(live.metadata, known):
            raise NameTaken("Service", live.metadata.name)
        if live is None or needs_patch(_encode(live), wanted):
            if live is None:
                await self._require_free_name(wanted, known)
            name = wanted["metadata"]["name"]
            written = await self._client.apply(SERVICES, name, wanted, known.namespace)
            await self._services.wait_for_version(written.metadata.resource_version)

    async def _require_free_name(self, wanted: JsonObject, owner: Metadata) -> None:
        """The cache has only Services with our label."""
        name = wanted["metadata"]["name"]
        try:
            existing = await self._client.get(SERVICES, name, owner.namespace)
        except NotFound:
            return
        if not _is_owned(existing.metadata, owner):
            raise NameTaken("Service", name)

    async def _apply_gang(self, observed: ObservedWorkload, wanted: JsonObject) -> None:
        live, known = observed.gang, observed.workload.metadata
        if live is not None and not _is_owned(live.metadata, known):
            raise NameTaken("PodGang", live.metadata.name)
        if live is not None and _has_same_gang(live, wanted):
            return
        name = wanted["metadata"]["name"]
        if live is None:
            try:
                existing = await self._client.get(GANGS, name, known.namespace)
            except NotFound:
                existing = None
            if existing is not None and not _is_owned(existing.metadata, known):
                raise NameTaken("PodGang", name)
        written = await self._client.apply(GANGS, name, wanted, known.namespace)
        await self._gangs.wait_for_version(written.metadata.resource_version)

    async def _create_pods(self, workload: GPUWorkload, bodies: Sequence[JsonObject]) -> None:
        created: list[Pod] = []
        try:
            calls = [partial(self._create_pod, workload, body, created) for body in bodies]
            await self._slow_start.run(workload.metadata.uid, calls)
        finally:
            await self._wait_for_pods(created)

    async def _create_pod(
        self, workload: GPUWorkload, body: JsonObject, created: list[Pod]
    ) -> None:
        name, namespace = body["metadata"]["name"], workload.metadata.namespace
        try:
            created.append(await self._client.create(PODS, body, namespace))
        except AlreadyExists:
            # Created by an earlier attempt whose response was lost.
            existing = await self._client.get(PODS, name, namespace)
            if not _is_owned(existing.metadata, workload.metadata):
                raise NameTaken("Pod", name) from None
            created.append(existing)

    async def _ungate(self, pods: Sequence[Pod]) -> None:
        results = await asyncio.gather(*map(self._ungate_pod, pods), return_exceptions=True)
        await self._wait_for_pods([each for each in results if isinstance(each, Pod)])
        raise_first_failure(results)

    async def _ungate_pod(self, pod: Pod) -> Pod | None:
        known = pod.metadata
        body = {**_UNGATE, "metadata": {"uid": known.uid}}
        try:
            return await self._client.patch(
                PODS, known.name, body, known.namespace, patch_type=PatchType.STRATEGIC
            )
        except (NotFound, Conflict):
            return None

    async def _wait_for_pods(self, pods: Sequence[Pod]) -> None:
        versions = [int(pod.metadata.resource_version) for pod in pods]
        if versions:
            await self._pods.wait_for_version(str(max(versions)))

    async def _apply_gang_status(self, gang: PodGang, wanted: PodGangStatus) -> None:
        """Apply our fields: the scheduler writes others."""
        body = _encode_gang_status(wanted)
        if body == _encode_gang_status(_select_own_status(gang.status, wanted)):
            return
        written = await apply_status(self._client, GANGS, gang.metadata, body)
        if written is not None:
            await self._gangs.wait_for_version(written.metadata.resource_version)


def _is_owned(metadata: Metadata, owner: Metadata) -> bool:
    controller = metadata.controller
    return controller is not None and controller.uid == owner.uid


def _has_same_gang(live: PodGang, wanted: JsonObject) -> bool:
    """Whether the gang has all that is wanted, and no further constraint."""
    spec = msgspec.convert(wanted["spec"], type(live.spec))
    metadata = cast("JsonObject", wanted["metadata"])
    return (
        live.spec == spec
        and metadata["labels"].items() <= live.metadata.labels.items()
        and metadata["annotations"].items() <= live.metadata.annotations.items()
    )


def _select_own_status(live: PodGangStatus, wanted: PodGangStatus) -> PodGangStatus:
    types = [each.type for each in wanted.conditions]
    by_type = {each.type: each for each in live.conditions}
    return PodGangStatus(
        phase=live.phase,
        conditions=tuple(by_type[each] for each in types if each in by_type),
        last_scheduled=live.last_scheduled,
        last_ready=live.last_ready,
    )


def _encode_gang_status(status: PodGangStatus) -> JsonObject:
    times = {"lastScheduled": status.last_scheduled, "lastReady": status.last_ready}
    return {
        "phase": status.phase,
        "conditions": [encode_condition(each) for each in status.conditions],
        **{name: time for name, time in times.items() if time is not None},
    }


def _encode(obj: msgspec.Struct) -> JsonObject:
    return cast("JsonObject", msgspec.to_builtins(obj))
