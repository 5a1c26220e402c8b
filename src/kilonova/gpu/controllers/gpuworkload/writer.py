"""Writes what differs between a workload's objects and what they should be.

Every write is idempotent, and waits until the caches show it.
"""

from collections.abc import Iterable
from typing import cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.kgwe import GPUWorkload
from kilonova.api.podgang import PodGang
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
from kilonova.kube import AlreadyExists
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.owned_objects import NameTaken, OwnedObjectWriter
from kilonova.kube.controllers.slow_start import SlowStart
from kilonova.kube.events import ObjectReference
from kilonova.kube.owner_references import is_controlled_by
from kilonova.kube.status import StatusWriter
from kilonova.scheduler.library.owned_gangs import apply_gang_status, ungate_pods

_NOUN = "workload"


class WorkloadWriter:
    """Applies plans."""

    def __init__(self, context: ControllerContext) -> None:
        caches, client = context.caches, context.client
        self._client = client
        self._recorder = context.recorder
        self._pods = OwnedObjectWriter(client, PODS, Expectations(caches.pods), _NOUN)
        self._gangs = OwnedObjectWriter(client, GANGS, Expectations(caches.gangs), _NOUN)
        self._services = OwnedObjectWriter(client, SERVICES, Expectations(caches.services), _NOUN)
        self._status = StatusWriter(client, WORKLOADS, Expectations(caches.workloads))
        self._slow_start = SlowStart(context.monotonic)
        self._priority_classes: set[str] = set()
        """Names of those that are known to exist: they are never changed."""

    async def apply(self, observed: ObservedWorkload, plan: WorkloadPlan) -> None:
        """Write a plan; raises the first error, after which the next plan goes on."""
        workload, known = observed.workload, observed.workload.metadata
        if plan.status_first:
            await self._status.write(workload, plan.status)
            self.record_events(workload, plan.events)
            return
        await self._pods.delete_all([pod.metadata for pod in plan.delete])
        if plan.delete_gang and observed.own_gang is not None:
            await self._gangs.delete(observed.own_gang.metadata)
        if plan.priority_class is not None:
            await self._ensure_priority_class(plan.priority_class)
        if plan.service is not None:
            await self._services.apply_changes(observed.service, plan.service, known)
        if plan.gang is not None:
            await self._apply_gang(observed, plan.gang)
        await self._pods.create_all(plan.create, known, self._slow_start)
        await ungate_pods(self._pods, plan.ungate)
        if plan.gang_status is not None and observed.own_gang is not None:
            await apply_gang_status(self._gangs, observed.own_gang, plan.gang_status)
        await self._status.write(workload, plan.status)
        self.record_events(workload, plan.events)

    def record_events(self, workload: GPUWorkload, events: Iterable[WorkloadEvent]) -> None:
        """Record events about a workload."""
        known = workload.metadata
        reference = ObjectReference.to(WORKLOADS, known.name, known.namespace, known.uid)
        for each in events:
            self._recorder.event(reference, each.reason, each.message, warning=each.is_warning)

    async def _ensure_priority_class(self, wanted: JsonObject) -> None:
        name = wanted["metadata"]["name"]
        if name in self._priority_classes:
            return
        try:
            await self._client.create(PRIORITY_CLASSES, wanted)
        except AlreadyExists:
            existing = await self._client.get(PRIORITY_CLASSES, name)
            if existing.value != wanted["value"]:
                raise NameTaken(PRIORITY_CLASSES.kind, name, _NOUN) from None
        self._priority_classes.add(name)

    async def _apply_gang(self, observed: ObservedWorkload, wanted: JsonObject) -> None:
        live, known = observed.gang, observed.workload.metadata
        if live is None:
            await self._gangs.require_free_name(wanted, known)
        elif not is_controlled_by(live.metadata, known):
            raise NameTaken(GANGS.kind, live.metadata.name, _NOUN)
        elif _has_same_gang(live, wanted):
            return
        await self._gangs.apply(wanted, known)


def _has_same_gang(live: PodGang, wanted: JsonObject) -> bool:
    """Whether the gang has all that is wanted, and no further constraint."""
    spec = msgspec.convert(wanted["spec"], type(live.spec))
    metadata = cast("JsonObject", wanted["metadata"])
    return (
        live.spec == spec
        and metadata["labels"].items() <= live.metadata.labels.items()
        and metadata["annotations"].items() <= live.metadata.annotations.items()
    )
