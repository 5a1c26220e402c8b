"""The leader's work: pass after pass, until the term ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial

import msgspec
from msgspec.structs import replace

from kilonova.api.fleet import Cluster
from kilonova.api.inference_engine import Deployment, Release
from kilonova.api.times import format_rfc3339
from kilonova.fleet.documents import JournalEntry, SavedObject
from kilonova.fleet.manager.context import ManagerContext
from kilonova.fleet.manager.fleet_state import FleetState, is_worth_saving
from kilonova.fleet.manager.hub import (
    FINALIZER,
    HubObject,
    ObjectId,
    Status,
    decode_saved,
    decode_status,
    encode_spec,
    id_of,
    select_annotations,
)
from kilonova.fleet.manager.hub_plan import plan_hub_writes, plan_registrations
from kilonova.fleet.manager.removal import find_removable
from kilonova.fleet.manager.resources import RESOURCES
from kilonova.fleet.manager.synchronisation import compare
from kilonova.fleet.planning import ClusterInput, FleetInput, FleetPlan, plan_fleet
from kilonova.fleet.store import FleetTerm, format_epoch
from kilonova.kube.events import ObjectReference
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.objectstore import ObjectStoreError, PreconditionFailed

log = get_logger(__name__)

_CONCURRENT_WRITES = 16


class FleetLeader:
    """One term as leader. `wake` starts a pass before its time."""

    def __init__(self, context: ManagerContext, term: FleetTerm, wake: asyncio.Event) -> None:
        self._context = context
        self._state = FleetState(term)
        self._wake = wake
        self._started = context.now(), context.monotonic()
        self._observing_since = context.now()
        self._calm_since: datetime | None = None
        self._last_pass: float | None = None
        self._problem = ""

    async def run(self) -> None:
        """Pass after pass. Returns only by cancellation, or an exception."""
        settings = self._context.settings
        try:
            async with asyncio.timeout(settings.hub_timeout):
                await self._context.hub.wait_for_sync()
        except TimeoutError:
            log.warning("hub not reachable: going on with what the store has")
        is_loaded = False
        while True:
            try:
                if not is_loaded:
                    await self.load()
                    is_loaded = True
                await self.run_pass()
                self._report("")
            except PreconditionFailed as error:
                # Another leader wrote, or an answer was lost: begin with what the store has.
                self._state = FleetState(self._state.term)
                is_loaded = False
                self._report(str(error))
            except (ObjectStoreError, TimeoutError) as error:
                self._report(str(error) or "no response from the store")
            await self._sleep()

    async def load(self) -> None:
        """Read what the store has; to be called before the first pass."""
        async with asyncio.timeout(self._context.settings.store_timeout):
            await self._state.load()

    async def _sleep(self) -> None:
        settings = self._context.settings
        try:
            async with asyncio.timeout(settings.pass_interval):
                await self._wake.wait()
                await asyncio.sleep(settings.wake_delay)
        except TimeoutError:
            pass
        self._wake.clear()

    def _report(self, problem: str) -> None:
        if problem and not self._problem:
            log.warning("pass failed, retrying", error=problem)
        elif self._problem and not problem:
            log.info("passes succeed again")
        self._problem = problem

    def _get_now(self) -> datetime:
        """The time: a clock that is set while the manager leads does not make members silent."""
        wall, monotonic = self._started
        return wall + timedelta(seconds=self._context.monotonic() - monotonic)

    async def run_pass(self) -> None:
        """Read reports, plan, write."""
        context, state = self._context, self._state
        async with asyncio.timeout(context.settings.store_timeout):
            await state.read_reports()
        began = context.monotonic()
        now = self._get_now()
        if self._last_pass is None or began - self._last_pass > context.settings.blind_after:
            self._observing_since = now
        self._last_pass = began
        objects = dict(self._collect_objects())
        plan = plan_fleet(self._build_input(objects, now))
        self._calm_since = plan.calm_since
        relocated = _count_relocated(objects, plan)
        seconds = context.monotonic() - began
        await self._write(objects, plan, now)
        if context.metrics is not None:
            context.metrics.record_pass(plan, seconds, relocated)

    def _collect_objects(self) -> Iterator[tuple[ObjectId, HubObject]]:
        """The objects that hold, with the statuses of the last pass."""
        hub, saved = self._context.hub, self._state.saved
        current = dict(hub.list_objects()) if hub.has_synced else {}
        for key in sorted({*current, *saved}):
            found, stored = current.get(key), saved.get(key)
            document = None if stored is None else stored.document
            holds = compare(found, document)
            if holds in ("restore", "update") and document is not None:
                try:
                    _, chosen = decode_saved(document)
                except msgspec.ValidationError as error:
                    log.warning("saved object ignored", object=str(key), error=str(error))
                    continue
                if found is not None:
                    chosen = replace(chosen, metadata=found.metadata)
            elif found is None or holds == "delete":
                continue
            else:
                chosen = found
                if not _may_save(found, document) and key.kind != "Release":
                    continue
            status = self._find_status(key, chosen, document)
            yield key, replace(chosen, status=status)

    def _find_status(self, key: ObjectId, found: HubObject, document: SavedObject | None) -> Status:
        """The status by the last pass of this leader, of the leader before, or of the hub."""
        known = self._state.statuses.get(key)
        if known is not None:
            return known
        if document is not None and document.state:
            try:
                return decode_status(key.kind, document.state)
            except msgspec.ValidationError as error:
                log.warning("saved status ignored", object=str(key), error=str(error))
        return found.status

    def _build_input(self, objects: dict[ObjectId, HubObject], now: datetime) -> FleetInput:
        state = self._state
        clusters: list[ClusterInput] = []
        deployments: list[Deployment] = []
        releases: dict[tuple[str, str], Release] = {}
        for key, found in objects.items():
            match found:
                case Cluster():
                    desired = state.desired.get(key.name)
                    clusters.append(
                        ClusterInput(
                            _evacuate_deleted(found),
                            state.observed.get(key.name),
                            () if desired is None else desired.document.deployments,
                        )
                    )
                case Deployment():
                    deployments.append(found)
                case Release():
                    releases[key.namespace, key.name] = found
        return FleetInput(
            clusters=clusters,
            deployments=deployments,
            releases=releases,
            now=now,
            observing_since=self._observing_since,
            calm_since=self._calm_since,
            settings=self._context.settings.plan,
        )

    async def _write(
        self, objects: dict[ObjectId, HubObject], plan: FleetPlan, now: datetime
    ) -> None:
        """State first, then orders, then what is only for people: after a crash in between, the
        next pass comes to the same orders."""
        state, context = self._state, self._context
        statuses = _collect_statuses(plan)
        removable = find_removable(objects, plan, state.observed)
        timeout = context.settings.store_timeout
        await self._write_all(
            partial(self._save, key, found, statuses.get(key, found.status), key in removable)
            for key, found in objects.items()
        )
        state.statuses = statuses
        await self._write_all(
            partial(state.order, cluster, deployments, format_rfc3339(now))
            for cluster, deployments in plan.desired.items()
            if ObjectId("Cluster", "", cluster) not in removable
        )
        for key in removable:
            if key.kind == "Cluster":
                async with asyncio.timeout(timeout):
                    await state.forget_cluster(key.name)
        self._record_events(objects, plan)
        if context.hub.has_synced:
            current = dict(context.hub.list_objects())
            saved = {key: each.document for key, each in state.saved.items()}
            seen_interval = context.settings.seen_interval
            context.writer.submit(
                plan_hub_writes(current, saved, statuses, removable, now, seen_interval)
            )
            if context.settings.register_members:
                context.writer.submit(plan_registrations({*current, *saved}, state.observed))
        entries = [
            JournalEntry(
                format_rfc3339(now),
                state.term.epoch,
                each.what,
                each.why,
                each.cluster,
                each.object,
            )
            for each in plan.decisions
        ]
        if entries:
            async with asyncio.timeout(timeout):
                await state.record(entries)

    async def _write_all(self, writes: Iterable[Callable[[], Awaitable[object]]]) -> None:
        """Write documents that do not depend on each other; raises the first failure, when all
        have ended."""
        limit = asyncio.Semaphore(_CONCURRENT_WRITES)

        async def write(each: Callable[[], Awaitable[object]]) -> None:
            async with limit, asyncio.timeout(self._context.settings.store_timeout):
                await each()

        results = await asyncio.gather(*map(write, writes), return_exceptions=True)
        for each in results:
            if each is not None:
                raise each

    async def _save(
        self, key: ObjectId, found: HubObject, status: Status, is_removed: bool
    ) -> None:
        stored = self._state.saved.get(key)
        old = None if stored is None else stored.document
        if not _may_save(found, old):
            return
        document = SavedObject(
            kind=key.kind,
            namespace=key.namespace,
            name=key.name,
            epoch=self._state.term.epoch,
            labels=dict(found.metadata.labels),
            annotations=select_annotations(found.metadata),
            spec=encode_spec(found),
            state={} if is_removed else msgspec.to_builtins(status),
            deleted=is_removed,
        )
        if old is not None and _is_saved(old, document):
            return
        await self._state.save(document)

    def _record_events(self, objects: dict[ObjectId, HubObject], plan: FleetPlan) -> None:
        for each in plan.events:
            found = objects.get(ObjectId(each.kind, each.namespace, each.name))
            uid = "" if found is None else found.metadata.uid
            reference = ObjectReference.to(RESOURCES[each.kind], each.name, each.namespace, uid)
            self._context.recorder.event(
                reference, each.reason, each.message, warning=each.is_warning
            )
        for decision in plan.decisions:
            log.info(
                "decided",
                what=decision.what,
                why=decision.why,
                epoch=format_epoch(self._state.term.epoch),
            )


def _may_save(found: HubObject, saved: SavedObject | None) -> bool:
    """Before the finalizer is there, an object could be deleted unnoticed, and be restored."""
    return saved is not None or FINALIZER in found.metadata.finalizers


def _is_saved(old: SavedObject, new: SavedObject) -> bool:
    """Whether what is saved suffices to continue with it."""
    fields = ("labels", "annotations", "spec", "deleted")
    if any(getattr(old, name) != getattr(new, name) for name in fields):
        return False
    kind = id_of(new).kind
    try:
        before, after = decode_status(kind, old.state), decode_status(kind, new.state)
    except msgspec.ValidationError:
        return False
    return not is_worth_saving(before, after)


def _evacuate_deleted(cluster: Cluster) -> Cluster:
    """A cluster that is being deleted is left first."""
    if cluster.metadata.deletion_timestamp is None:
        return cluster
    return replace(cluster, spec=replace(cluster.spec, evacuated=True))


def _collect_statuses(plan: FleetPlan) -> dict[ObjectId, Status]:
    statuses: dict[ObjectId, Status] = {
        ObjectId("Cluster", "", name): status for name, status in plan.clusters.items()
    }
    for (namespace, name), deployment in plan.deployments.items():
        statuses[ObjectId("Deployment", namespace, name)] = deployment
    for (namespace, name), release in plan.releases.items():
        statuses[ObjectId("Release", namespace, name)] = release
    return statuses


def _count_relocated(objects: dict[ObjectId, HubObject], plan: FleetPlan) -> int:
    count = 0
    for (namespace, name), status in plan.deployments.items():
        found = objects.get(ObjectId("Deployment", namespace, name))
        if isinstance(found, Deployment):
            count += status.relocated - found.status.relocated
    return count
