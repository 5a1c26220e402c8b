"""The PodCliqueSet controller. A key is a set.

A reconcile reads every pod of the set, so reconciles of a big set are spaced: they use a small
constant share of a CPU however big the set is. Changes of the spec are reconciled at once.
"""

from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodCliqueSetStatus,
    names,
)
from kilonova.api.grove.common import LastError
from kilonova.api.podgang import PodGang
from kilonova.api.times import add_seconds, format_rfc3339
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Conflict,
    Controller,
    Key,
    NotFound,
    Result,
)
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.events import ObjectReference
from kilonova.kube.status import StatusThrottle, StatusWriter, build_status_patch
from kilonova.workloads.builders.topology_levels import resolve_levels
from kilonova.workloads.caches import BY_CLIQUE, BY_SET
from kilonova.workloads.context import ControllerContext
from kilonova.workloads.controllers.podcliqueset.deletion import ChildDeleter
from kilonova.workloads.controllers.podcliqueset.event_handlers import list_watches
from kilonova.workloads.controllers.podcliqueset.reconcile_errors import ReconcileErrors
from kilonova.workloads.controllers.podcliqueset.replica_state import (
    ReplicaState,
    compute_replica_states,
)
from kilonova.workloads.controllers.podcliqueset.revision_history import RevisionHistory
from kilonova.workloads.controllers.podcliqueset.shared_claims import SharedClaimWriter
from kilonova.workloads.controllers.podcliqueset.status import (
    StatusInputs,
    build_status,
    compute_progress_deadline,
    get_finish_time,
)
from kilonova.workloads.controllers.podcliqueset.updates import (
    advance_update,
    compute_unplaced_recheck,
)
from kilonova.workloads.limits import (
    LIMIT_EXCEEDED_REASON,
    OVER_LIMIT_CODE,
    LimitViolation,
    check_set_limits,
)
from kilonova.workloads.resources import SETS
from kilonova.workloads.update_strategy import (
    count_desired_replicas,
    count_surge_replicas,
    is_update_open,
)

_ORPHAN_FINALIZER = "orphan"
"""The finalizer of a deletion that orphans owned objects."""
_WORKERS = 8
_BACKOFF = Backoff(0.005, 10.0)
"""A conflicting object may go away without an event."""
_PAUSE_SECONDS_PER_REPLICA = 0.0004
"""Between two reconciles of a set, for each replica: about twenty times what it takes to read one.
"""
_IDLE_PAUSE_FACTOR = 5
"""How many times longer the pause is without an update in progress."""


def build_set_controller(context: ControllerContext) -> Controller:
    """Build the controller; the caches must be running."""
    controller = Controller(
        "podcliqueset",
        _SetReconciler(context).reconcile,
        list_watches(context.caches),
        workers=_WORKERS,
        backoff=_BACKOFF,
        runtime_metrics=context.runtime_metrics,
    )
    context.replica_errors.subscribe(controller.queue.add)
    return controller


class _SetReconciler:
    def __init__(self, context: ControllerContext) -> None:
        client, caches = context.client, context.caches
        self._client = client
        self._caches = caches
        self._replica_errors = context.replica_errors
        self._settings = context.settings
        self._recorder = context.recorder
        self._now = context.now
        self._monotonic = context.monotonic
        self._throttle = StatusThrottle(context.settings.status_write_interval, context.monotonic)
        self._next_reconcile: dict[Key, tuple[int, float]] = {}
        self._expectations = Expectations(caches.sets)
        self._status_writer = StatusWriter(client, SETS, self._expectations)
        self._history = RevisionHistory(client, caches)
        self._deleter = ChildDeleter(client, caches)
        self._claims = SharedClaimWriter(client, caches)

    async def reconcile(self, key: Key) -> Result | None:
        """Reconcile one set."""
        set_ = self._caches.sets.store.get(key)
        if set_ is None or set_.metadata.deletion_timestamp is not None:
            self._next_reconcile.pop(key, None)
            await self._finalize(key, set_)
            return None
        excess = check_set_limits(set_.spec)
        if excess is not None:
            self._next_reconcile.pop(key, None)
            await self._report_limit_violation(set_, excess)
            return None
        wait = self._get_reconcile_delay(key, set_)
        if wait > 0:
            return Result(requeue_after=wait)
        try:
            if names.SET_FINALIZER not in set_.metadata.finalizers:
                set_ = await self._add_finalizer(set_)
            return await self._reconcile_now(key, set_)
        except Exception:
            # The retry has its own backoff.
            self._next_reconcile.pop(key, None)
            raise

    async def _report_limit_violation(self, set_: PodCliqueSet, violation: LimitViolation) -> None:
        """Leave all objects as they are, and report why."""
        time, known = format_rfc3339(self._now()), set_.status.last_errors
        error = LastError(OVER_LIMIT_CODE, str(violation), time)
        errors = ReconcileErrors(time).merge_with_known(known, [error])
        if errors != known:
            self._recorder.event(
                _reference_to(set_), LIMIT_EXCEEDED_REASON, str(violation), warning=True
            )
            await self._write_status(set_, replace(set_.status, last_errors=errors))

    async def _reconcile_now(self, key: Key, set_: PodCliqueSet) -> Result | None:
        now = self._now()
        reconcile_errors = ReconcileErrors(format_rfc3339(now))
        revision = await reconcile_errors.capture(
            "ERR_SYNC_REVISIONS", self._history.ensure_current_revision(set_)
        )
        if revision is None:
            known = set_.status.last_errors
            await self._write_status(
                set_, replace(set_.status, last_errors=reconcile_errors.merge_with_known(known))
            )
            raise reconcile_errors.get_first_error()
        inputs = self._gather_status_inputs(key, set_, revision.hash, now)
        status = build_status(set_, inputs, now)
        if _changes_instructions(set_.status, status):
            # Other controllers act on this: it must be written before objects are deleted.
            known = set_.status.last_errors
            set_ = await self._write_status(set_, replace(status, last_errors=known))
        desired_replicas = set_.spec.replicas + count_surge_replicas(set_, inputs.progress)
        await reconcile_errors.capture(
            "ERR_SYNC_REPLICAS", self._delete_surplus_replicas(set_, desired_replicas)
        )
        await reconcile_errors.capture(
            "ERR_SYNC_COMPUTE_DOMAINS", self._deleter.finalize_compute_domains(key)
        )
        await reconcile_errors.capture("ERR_SYNC_RESOURCE_CLAIMS", self._claims.ensure_claims(set_))
        await reconcile_errors.capture(
            "ERR_SYNC_REVISIONS", self._history.delete_old_revisions(set_)
        )
        errors = reconcile_errors.merge_with_known(
            set_.status.last_errors, self._replica_errors.list_errors(key)
        )
        status = replace(build_status(set_, inputs, now), last_errors=errors)
        wait = self._throttle.get_delay(key) if build_status_patch(set_.status, status) else 0.0
        if not wait:
            set_ = await self._write_status(set_, status)
        if reconcile_errors.errors:
            raise reconcile_errors.get_first_error()
        return await self._schedule_requeue(set_, inputs, now, wait)

    def _get_reconcile_delay(self, key: Key, set_: PodCliqueSet) -> float:
        """Seconds until the set may be reconciled again; 0 if its spec has changed."""
        now, generation = self._monotonic(), set_.metadata.generation
        known, until = self._next_reconcile.get(key, (0, now))
        if known == generation and until > now:
            return until - now
        pause = min(
            _PAUSE_SECONDS_PER_REPLICA * count_desired_replicas(set_),
            self._settings.status_write_interval,
        )
        if not is_update_open(set_.status.update_progress):
            # No replica waits to be updated, and the status of a big set is big: it can wait.
            pause *= _IDLE_PAUSE_FACTOR
        self._next_reconcile[key] = (generation, now + pause)
        return 0.0

    def _gather_status_inputs(
        self, key: Key, set_: PodCliqueSet, hash_: str, now: datetime
    ) -> StatusInputs:
        caches, uid = self._caches, set_.metadata.uid
        groups = [
            each
            for each in caches.groups.store.by_index(BY_SET, key)
            if _get_controller_uid(each) == uid
        ]
        owners = {uid, *(each.metadata.uid for each in groups)}
        cliques = [
            each
            for each in caches.cliques.store.by_index(BY_SET, key)
            if _get_controller_uid(each) in owners
        ]
        pods, namespace = caches.pods.store, set_.metadata.namespace
        replicas = compute_replica_states(
            set_,
            hash_,
            cliques,
            groups,
            lambda each: pods.by_index(BY_CLIQUE, (namespace, each.metadata.name)),
        )
        requested = {
            index: replicas.get(index, ReplicaState(index))
            for index in range(count_desired_replicas(set_))
        }
        topologies = {each.metadata.name: each for each in caches.topologies.store.objects()}
        return StatusInputs(
            hash=hash_,
            progress=advance_update(set_, hash_, requested, now),
            replicas=replicas,
            gangs=[
                each
                for each in caches.gangs.store.by_index(BY_SET, key)
                if _get_controller_uid(each) == uid
            ],
            levels=resolve_levels(set_, topologies, enabled=self._settings.topology),
        )

    async def _delete_surplus_replicas(self, set_: PodCliqueSet, desired_replicas: int) -> None:
        reference = _reference_to(set_)
        try:
            removed = await self._deleter.delete_surplus_replicas(set_, desired_replicas)
        except ApiStatusError as error:
            reason = "PodCliqueSetReplicaDeleteFailed"
            self._recorder.event(reference, reason, str(error), warning=True)
            raise
        if removed:
            message = f"Deleted replicas {', '.join(map(str, removed))}"
            self._recorder.event(reference, "PodCliqueSetReplicaDeleteSuccessful", message)

    async def _schedule_requeue(
        self, set_: PodCliqueSet, inputs: StatusInputs, now: datetime, wait: float
    ) -> Result | None:
        """When to reconcile again if nothing changes; deletes the set if its TTL has passed."""
        times = [wait] if wait else []
        for deadline in (
            compute_progress_deadline(set_, inputs.progress),
            compute_unplaced_recheck(inputs.progress, inputs.replicas, now),
        ):
            if deadline is not None and deadline > now:
                times.append((deadline - now).total_seconds())
        ttl, finished = set_.spec.template.ttl_seconds_after_finished, get_finish_time(set_.status)
        if ttl is not None and finished is not None:
            remaining = (add_seconds(finished, ttl) - now).total_seconds()
            if remaining <= 0:
                await self._delete(set_)
                return None
            times.append(remaining)
        return Result(requeue_after=min(times)) if times else None

    async def _add_finalizer(self, set_: PodCliqueSet) -> PodCliqueSet:
        """Add the operator's finalizer."""
        return await self._patch_finalizers(set_, [*set_.metadata.finalizers, names.SET_FINALIZER])

    async def _finalize(self, key: Key, set_: PodCliqueSet | None) -> None:
        """Delete the set's objects, unless they are orphaned, and remove the finalizer.

        The garbage collector would delete them too, but later: it may not know these kinds yet.
        """
        await self._deleter.finalize_compute_domains(key)
        if set_ is None or names.SET_FINALIZER not in set_.metadata.finalizers:
            return
        if _ORPHAN_FINALIZER not in set_.metadata.finalizers:
            await self._deleter.delete_all(set_)
        remaining = [each for each in set_.metadata.finalizers if each != names.SET_FINALIZER]
        try:
            await self._patch_finalizers(set_, remaining)
        except NotFound:
            return

    async def _patch_finalizers(self, set_: PodCliqueSet, finalizers: list[str]) -> PodCliqueSet:
        known = set_.metadata
        metadata = {"finalizers": finalizers, "resourceVersion": known.resource_version}
        changed = await self._client.patch(
            SETS, known.name, {"metadata": metadata}, known.namespace
        )
        if finalizers:
            await self._expectations.wait_for_version(changed.metadata.resource_version)
        return changed

    async def _write_status(self, set_: PodCliqueSet, status: PodCliqueSetStatus) -> PodCliqueSet:
        """Write the difference; returns the set with its new status."""
        written = await self._status_writer.write(set_, status)
        if written is None:
            return set_
        if written is not set_:
            self._throttle.record_write((set_.metadata.namespace, set_.metadata.name))
        return written

    async def _delete(self, set_: PodCliqueSet) -> None:
        known = set_.metadata
        try:
            await self._client.delete(
                SETS, known.name, known.namespace, uid=known.uid, propagation_policy="Background"
            )
        except (NotFound, Conflict):
            return


def _changes_instructions(old: PodCliqueSetStatus, new: PodCliqueSetStatus) -> bool:
    """Whether a status changes what the controllers of replicas and cliques do."""
    return _get_instructions(old) != _get_instructions(new)


def _get_instructions(status: PodCliqueSetStatus) -> tuple[str, bool, frozenset[int]]:
    progress = status.update_progress
    updating = progress.currently_updating if progress else ()
    return (
        status.current_generation_hash,
        is_update_open(progress),
        frozenset(each.replica_index for each in updating),
    )


def _reference_to(set_: PodCliqueSet) -> ObjectReference:
    known = set_.metadata
    return ObjectReference.to(SETS, known.name, known.namespace, known.uid)


def _get_controller_uid(child: PodClique | PodCliqueScalingGroup | PodGang) -> str | None:
    owner = child.metadata.controller
    return owner.uid if owner is not None else None
