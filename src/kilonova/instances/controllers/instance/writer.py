"""Writes what differs between an instance's objects and what they should be.

Every write is idempotent, and waits until the caches show it.
"""

from collections.abc import Iterable, Sequence

from kilonova.api.inference_engine import InferenceEngineInstance
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.instance.observed import ObservedInstance
from kilonova.instances.controllers.instance.plan import Deletion, InstanceEvent, InstancePlan
from kilonova.instances.resources import GANGS, INSTANCES, PODS, RESERVATIONS, SERVICES
from kilonova.kube import AlreadyExists
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.owned_objects import OwnedObjectWriter
from kilonova.kube.controllers.slow_start import SlowStart
from kilonova.kube.events import ObjectReference
from kilonova.scheduler.library.owned_gangs import apply_gang_status, ungate_pods

_NOUN = "instance"


class InstanceWriter:
    """Executes plans, except for the status."""

    def __init__(self, context: ControllerContext) -> None:
        caches, client = context.caches, context.client
        self._client = client
        self._recorder = context.recorder
        self._pods = OwnedObjectWriter(client, PODS, Expectations(caches.pods), _NOUN)
        self._gangs = OwnedObjectWriter(client, GANGS, Expectations(caches.gangs), _NOUN)
        self._services = OwnedObjectWriter(client, SERVICES, Expectations(caches.services), _NOUN)
        self._reservations = OwnedObjectWriter(
            client, RESERVATIONS, Expectations(caches.reservations), _NOUN
        )
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
            await self._gangs.delete(gang.metadata)
        for unused in plan.delete_services:
            await self._services.delete(unused.metadata)
        await self._pods.create_all(plan.create, known, self._slow_start)
        await ungate_pods(self._pods, plan.ungate)
        if plan.gang_status is not None:
            await apply_gang_status(self._gangs, *plan.gang_status)
        for reservation in plan.delete_reservations:
            await self._reservations.delete(reservation.metadata)

    def record_events(
        self, instance: InferenceEngineInstance, events: Iterable[InstanceEvent]
    ) -> None:
        """Record events about an instance."""
        known = instance.metadata
        reference = ObjectReference.to(INSTANCES, known.name, known.namespace, known.uid)
        for each in events:
            self._recorder.event(reference, each.reason, each.message, warning=each.is_warning)

    async def _apply_service(self, observed: ObservedInstance, wanted: JsonObject) -> None:
        name = wanted["metadata"]["name"]
        live = next((each for each in observed.services if each.metadata.name == name), None)
        await self._services.apply_changes(live, wanted, observed.instance.metadata)

    async def _create_reservation(self, wanted: JsonObject, owner: Metadata) -> None:
        try:
            written = await self._client.create(RESERVATIONS, wanted, owner.namespace)
        except AlreadyExists:
            await self._reservations.require_free_name(wanted, owner)
            return
        await self._reservations.wait_for_cache([written])

    async def _apply_gang(self, observed: ObservedInstance, wanted: JsonObject) -> None:
        known, name = observed.instance.metadata, wanted["metadata"]["name"]
        if all(each.metadata.name != name for each in observed.gangs):
            await self._gangs.require_free_name(wanted, known)
        await self._gangs.apply(wanted, known)

    async def _delete_pods(self, deletions: Sequence[Deletion]) -> None:
        forced = {each.pod.metadata.uid for each in deletions if each.is_forced}
        await self._pods.delete_all([each.pod.metadata for each in deletions], forced)
