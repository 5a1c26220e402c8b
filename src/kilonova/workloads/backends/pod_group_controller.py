"""The controller of PodGroups: one for each PodGang of a backend's scheduler.

A PodGroup has the name of its gang and is owned by it. It is created again after a deletion, and
changes to the operator's fields are reverted; other fields are not touched. An existing PodGroup of
that name with another owner is left alone.
"""

from typing import Any

import msgspec

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang
from kilonova.kube import (
    NO_RUNTIME_METRICS,
    AlreadyExists,
    ApiStatusError,
    ChangeWatch,
    Client,
    Conflict,
    Controller,
    Key,
    NotFound,
    Result,
    RuntimeMetrics,
)
from kilonova.kube.client.merge_patch import minimal_merge_patch
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.workloads.backends.event_handlers import PodGroupEventHandlers, get_gang_scheduler
from kilonova.workloads.backends.interface import PodGroupContext, SchedulerBackend
from kilonova.workloads.backends.optional_kinds import OptionalKind
from kilonova.workloads.caches import Caches
from kilonova.workloads.keys import get_set_key
from kilonova.workloads.resources import GANGS, ChildObject

_WORKERS = 4
_RETRY_SECONDS = 30.0
"""A conflicting PodGroup may lack the operator's label, and then no event reports its deletion."""


def build_pod_group_controllers(
    client: Client,
    caches: Caches,
    kind: OptionalKind[ChildObject],
    backend: SchedulerBackend,
    recorder: EventRecorder,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
) -> tuple[Controller, Controller]:
    """The controller that writes PodGroups, which starts once the kind is served, and the one that
    reports a missing kind until then.
    """
    handlers = PodGroupEventHandlers(caches, backend.name)
    reconciler = _PodGroupReconciler(client, caches, kind, backend, recorder)
    return (
        Controller(
            f"podgroup-{backend.name}",
            reconciler.reconcile,
            [
                ChangeWatch(caches.gangs, handlers.on_gang),
                ChangeWatch(caches.sets, handlers.on_set),
                ChangeWatch(caches.topologies, handlers.on_topology),
                ChangeWatch(kind.objects, handlers.on_pod_group),
                ChangeWatch(kind.definition, handlers.on_definition),
            ],
            workers=_WORKERS,
            runtime_metrics=runtime_metrics,
        ),
        Controller(
            f"podgroup-crd-{backend.name}",
            reconciler.report_missing_kind,
            [
                ChangeWatch(caches.gangs, handlers.on_new_gang),
                ChangeWatch(kind.definition, handlers.on_definition),
            ],
            runtime_metrics=runtime_metrics,
        ),
    )


class _PodGroupReconciler:
    def __init__(
        self,
        client: Client,
        caches: Caches,
        kind: OptionalKind[ChildObject],
        backend: SchedulerBackend,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._caches = caches
        self._kind = kind
        self._backend = backend
        self._recorder = recorder
        self._expectations = Expectations(kind.objects)

    async def reconcile(self, key: Key) -> Result | None:
        """Reconcile the PodGroup of one gang."""
        gang, live = self._caches.gangs.store.get(key), self._kind.objects.store.get(key)
        if gang is None or gang.metadata.deletion_timestamp is not None:
            if live is not None and _is_owned_by_gang(live):
                await self._delete(live)
            return None
        owner = get_set_key(gang.metadata)
        set_ = None if owner is None else self._caches.sets.store.get(owner)
        if get_gang_scheduler(gang) != self._backend.name or set_ is None:
            return None
        mapped = self._backend.build_pod_group(gang, self._build_context(gang, set_))
        if mapped.problem:
            self._record_failure_event(gang, mapped.problem)
        if mapped.body is None or await self._ensure_pod_group(gang, live, mapped.body):
            return None
        return Result(requeue_after=_RETRY_SECONDS)

    async def report_missing_kind(self, key: Key) -> None:
        """Record an event on a gang whose scheduler's CRD is not installed."""
        gang = self._caches.gangs.store.get(key)
        if gang is not None and not self._kind.is_served:
            name = self._backend.name
            self._record_failure_event(
                gang,
                f"{self._kind.missing_message}; PodGroups are created once {name} is installed",
            )

    def _build_context(self, gang: PodGang, set_: PodCliqueSet) -> PodGroupContext:
        name = gang.metadata.annotations.get(names.TOPOLOGY_NAME, "")
        binding = self._caches.topologies.store.get(("", name))
        topologies = {} if binding is None else {name: binding}
        return PodGroupContext(set_, topologies, self._kind.spec_fields)

    async def _ensure_pod_group(
        self, gang: PodGang, live: ChildObject | None, wanted: JsonObject
    ) -> bool:
        """Whether the PodGroup is as desired now; if not, another object is in the way."""
        try:
            if live is None:
                live = await self._create(gang, wanted)
            return await self._update(gang, live, wanted)
        except Conflict:
            raise
        except ApiStatusError as error:
            self._record_failure_event(
                gang, f"PodGroup {gang.metadata.name} cannot be written: {error.message}"
            )
            raise

    async def _create(self, gang: PodGang, wanted: JsonObject) -> ChildObject:
        known = gang.metadata
        body = minimal_merge_patch({}, wanted)  # without the nulls
        try:
            made = await self._client.create(self._backend.pod_groups, body, known.namespace)
        except AlreadyExists:
            # Created by an earlier attempt, or its labels were removed so that the cache lacks it.
            return await self._client.get(self._backend.pod_groups, known.name, known.namespace)
        await self._expectations.wait_for_version(made.metadata.resource_version)
        return made

    async def _update(self, gang: PodGang, live: ChildObject, wanted: JsonObject) -> bool:
        owner = live.metadata.controller
        if live.metadata.deletion_timestamp is not None:
            return False
        if owner is None or owner.uid != gang.metadata.uid:
            if _is_owned_by_gang(live):
                await self._delete(live)  # owned by an earlier gang of this name
            else:
                self._record_failure_event(
                    gang, f"PodGroup {live.metadata.name} exists and is not owned by this PodGang"
                )
            return False
        present: JsonObject = msgspec.json.decode(msgspec.json.encode(live), type=dict[str, Any])
        patch = minimal_merge_patch(present, self._backend.drop_fields_of_others(wanted, live))
        if patch is None:
            return True
        known = live.metadata
        body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": known.uid}}
        try:
            changed = await self._client.patch(
                self._backend.pod_groups, known.name, body, known.namespace
            )
        except NotFound:
            return False
        await self._expectations.wait_for_version(changed.metadata.resource_version)
        return True

    async def _delete(self, live: ChildObject) -> None:
        known = live.metadata
        if known.deletion_timestamp is not None:
            return
        try:
            await self._client.delete(
                self._backend.pod_groups, known.name, known.namespace, uid=known.uid
            )
        except (NotFound, Conflict):
            return

    def _record_failure_event(self, gang: PodGang, problem: str) -> None:
        known = gang.metadata
        reference = ObjectReference.to(GANGS, known.name, known.namespace, known.uid)
        self._recorder.event(reference, self._backend.failure_reason, problem, warning=True)


def _is_owned_by_gang(live: ChildObject) -> bool:
    owner = live.metadata.controller
    return owner is not None and (owner.api_version, owner.kind) == (GANGS.api_version, GANGS.kind)
