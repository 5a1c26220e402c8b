"""Writes what differs between an instance's objects and what they should be.

Every write is idempotent, and waits until the caches show it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from kilonova.api.grove import names as grove_names
from kilonova.api.inference_engine import InferenceEngineInstance
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang, PodGangStatus
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.instance.observed import ObservedInstance
from kilonova.instances.controllers.instance.plan import Deletion, InstanceEvent, InstancePlan
from kilonova.instances.resources import (
    GANGS,
    INSTANCES,
    PODS,
    RESERVATIONS,
    SERVICES,
    Pod,
)
from kilonova.kube import AlreadyExists, Conflict, NotFound, PatchType, Resource
from kilonova.kube.client.merge_patch import needs_patch
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import SlowStart, raise_first_failure
from kilonova.kube.events import ObjectReference
from kilonova.kube.status import apply_status, encode_condition

_UNGATE: JsonObject = {
    "spec": {"schedulingGates": [{"name": grove_names.POD_GANG_GATE, "$patch": "delete"}]}
}


class NameTaken(Exception):
    """An object that the instance needs exists, and belongs to something else."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"{kind} {name} belongs to another object: delete it, or rename the instance"
        )


class InstanceWriter:
    """Carries out plans, except for the status."""

    def __init__(self, context: ControllerContext) -> None:
        caches = context.caches
        self._client = context.client
        self._recorder = context.recorder
        self._pods = Expectations(caches.pods)
        self._gangs = Expectations(caches.gangs)
        self._services = Expectations(caches.services)
        self._reservations = Expectations(caches.reservations)
        self._slow_start = SlowStart(context.monotonic)

    async def apply(self, observed: ObservedInstance, plan: InstancePlan) -> None:
        """Write a plan; raises the first error, after which the next plan goes on."""
        known = observed.instance.metadata
        for service in plan.services:
            await self._apply_service(observed, service)
        if plan.reservation is not None:
            await self._create_reservation(plan.reservation, known)
        if plan.gang is not None:
            await self._apply_gang(observed, plan.gang)
        await self._delete_pods(plan.delete_pods)
        for gang in plan.delete_gangs:
            await self._delete(GANGS, gang.metadata, self._gangs)
        for unused in plan.delete_services:
            await self._delete(SERVICES, unused.metadata, self._services)
        await self._create_pods(known, plan.create)
        await self._ungate(plan.ungate)
        if plan.gang_status is not None:
            await self._apply_gang_status(*plan.gang_status)
        for reservation in plan.delete_reservations:
            await self._delete(RESERVATIONS, reservation.metadata, self._reservations)

    def record_events(
        self, instance: InferenceEngineInstance, events: Iterable[InstanceEvent]
    ) -> None:
        """Record events about an instance."""
        known = instance.metadata
        reference = ObjectReference.to(INSTANCES, known.name, known.namespace, known.uid)
        for each in events:
            self._recorder.event(reference, each.reason, each.message, warning=each.is_warning)

    async def _apply_service(self, observed: ObservedInstance, wanted: JsonObject) -> None:
        known, name = observed.instance.metadata, wanted["metadata"]["name"]
        live = next((each for each in observed.services if each.metadata.name == name), None)
        if live is None:
            await self._require_free_name(SERVICES, wanted, known)
        elif not _is_owned(live.metadata, known):
            raise NameTaken(SERVICES.kind, live.metadata.name)
        elif not needs_patch(cast("JsonObject", msgspec.to_builtins(live)), wanted):
            return
        written = await self._client.apply(SERVICES, name, wanted, known.namespace)
        await self._services.wait_for_version(written.metadata.resource_version)

    async def _create_reservation(self, wanted: JsonObject, owner: Metadata) -> None:
        try:
            written = await self._client.create(RESERVATIONS, wanted, owner.namespace)
        except AlreadyExists:
            await self._require_free_name(RESERVATIONS, wanted, owner)
            return
        await self._reservations.wait_for_version(written.metadata.resource_version)

    async def _apply_gang(self, observed: ObservedInstance, wanted: JsonObject) -> None:
        known, name = observed.instance.metadata, wanted["metadata"]["name"]
        if all(each.metadata.name != name for each in observed.gangs):
            await self._require_free_name(GANGS, wanted, known)
        written = await self._client.apply(GANGS, name, wanted, known.namespace)
        await self._gangs.wait_for_version(written.metadata.resource_version)

    async def _require_free_name(
        self, resource: Resource[Any], wanted: JsonObject, owner: Metadata
    ) -> None:
        """The caches have only objects with our label."""
        name = wanted["metadata"]["name"]
        try:
            existing: Any = await self._client.get(resource, name, owner.namespace)
        except NotFound:
            return
        if not _is_owned(existing.metadata, owner):
            raise NameTaken(resource.kind, name)

    async def _delete_pods(self, deletions: Sequence[Deletion]) -> None:
        results = await asyncio.gather(*map(self._delete_pod, deletions), return_exceptions=True)
        for deletion, result in zip(deletions, results, strict=True):
            if result is None:
                known = deletion.pod.metadata
                await self._pods.wait_for_deletion((known.namespace, known.name), known.uid)
        raise_first_failure(results)

    async def _delete_pod(self, deletion: Deletion) -> None:
        known = deletion.pod.metadata
        grace = 0 if deletion.is_forced else None
        try:
            await self._client.delete(
                PODS, known.name, known.namespace, uid=known.uid, grace_period_seconds=grace
            )
        except (NotFound, Conflict):
            return  # gone, or another pod of that name

    async def _delete(
        self, resource: Resource[Any], metadata: Metadata, expectations: Expectations[Any]
    ) -> None:
        name, namespace = metadata.name, metadata.namespace
        try:
            await self._client.delete(resource, name, namespace, uid=metadata.uid)
        except (NotFound, Conflict):
            return
        await expectations.wait_for_deletion((namespace, name), metadata.uid)

    async def _create_pods(self, owner: Metadata, bodies: Sequence[JsonObject]) -> None:
        created: list[Pod] = []
        try:
            calls = [partial(self._create_pod, owner, body, created) for body in bodies]
            await self._slow_start.run(owner.uid, calls)
        finally:
            await self._wait_for_pods(created)

    async def _create_pod(self, owner: Metadata, body: JsonObject, created: list[Pod]) -> None:
        name, namespace = body["metadata"]["name"], owner.namespace
        try:
            created.append(await self._client.create(PODS, body, namespace))
        except AlreadyExists:
            # Created by an earlier attempt whose response was lost.
            existing = await self._client.get(PODS, name, namespace)
            if not _is_owned(existing.metadata, owner):
                raise NameTaken(PODS.kind, name) from None
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


def _select_own_status(live: PodGangStatus, wanted: PodGangStatus) -> PodGangStatus:
    by_type = {each.type: each for each in live.conditions}
    types = [each.type for each in wanted.conditions]
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
