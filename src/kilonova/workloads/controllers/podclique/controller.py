"""The PodClique controller. A key is a clique.

A reconcile reads the clique's pods and, until all of them are released, the pods of its startup
dependencies. Reconciles of a big clique are spaced, so that they use a small constant share of a
CPU however many pods start at once; changes of the spec are reconciled at once. Pods are written
first; the status after them, and no more often than its throttle allows.
"""

from collections.abc import Awaitable
from functools import partial

from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueSet, PodCliqueStatus, names
from kilonova.api.podgang import PodGang
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Controller,
    Key,
    NotFound,
    Result,
)
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import SlowStart
from kilonova.kube.status import StatusThrottle, StatusWriter
from kilonova.workloads.builders.pods import build_pod
from kilonova.workloads.builders.template_lookup import find_group_member
from kilonova.workloads.caches import BY_BASE_GANG, BY_CLIQUE, BY_REPLICA, list_scalable_objects
from kilonova.workloads.context import ControllerContext
from kilonova.workloads.controllers.podclique.desire import ObservedClique, PodPlan, desire
from kilonova.workloads.controllers.podclique.event_handlers import CliqueEventHandlers
from kilonova.workloads.controllers.podclique.gates import (
    has_clique_started,
    has_other_revision,
    is_scaled_in,
)
from kilonova.workloads.controllers.podclique.pod_backoff import PodBackoff
from kilonova.workloads.controllers.podclique.pod_writer import PodWriter
from kilonova.workloads.controllers.podclique.status import (
    build_error_status,
    has_lost_all,
    is_urgent,
)
from kilonova.workloads.keys import get_replica_key, get_set_key
from kilonova.workloads.limits import (
    LIMIT_EXCEEDED_REASON,
    MAX_PODS,
    OVER_LIMIT_CODE,
    LimitViolation,
    check_scale_limits,
)
from kilonova.workloads.pods.classification import is_controlled_by
from kilonova.workloads.pods.state import is_terminating
from kilonova.workloads.resources import CLIQUES

_CONTROLLER_NAME = "podclique"
_WORKERS = 64
_BACKOFF = Backoff(0.005, 10.0)
"""Quotas are not watched: that one has been raised is found by retrying."""
_LIMIT_RECHECK_SECONDS = 10.0
"""Another object of the set may be scaled in meanwhile."""
_PAUSE_SECONDS_PER_POD = 0.0001
"""Between two reconciles, for each pod of a clique; reading one takes about a tenth of it."""
_MIN_PAUSE_SECONDS = 0.005
"""Shorter pauses are skipped."""


def build_clique_controller(context: ControllerContext) -> Controller:
    """Build the controller; the caches must be running."""
    reconciler = _CliqueReconciler(context)
    watches = CliqueEventHandlers(context.caches).list_watches()
    controller = Controller(
        _CONTROLLER_NAME,
        reconciler.reconcile,
        watches,
        workers=_WORKERS,
        backoff=_BACKOFF,
        runtime_metrics=context.runtime_metrics,
    )
    context.congestion.register_controller(_CONTROLLER_NAME, controller.queue.add)
    return controller


class _CliqueReconciler:
    def __init__(self, context: ControllerContext) -> None:
        caches, monotonic = context.caches, context.monotonic
        self._client = context.client
        self._caches = caches
        self._settings = context.settings
        self._now = context.now
        self._pod_writer = PodWriter(
            context.client, context.recorder, Expectations(caches.pods), SlowStart(monotonic)
        )
        self._expectations = Expectations(caches.cliques)
        self._status_writer = StatusWriter(context.client, CLIQUES, self._expectations)
        self._congestion = context.congestion
        self._throttle = StatusThrottle(
            context.settings.status_write_interval, monotonic, context.congestion
        )
        self._pod_backoff = PodBackoff(monotonic)
        self._monotonic = monotonic
        self._next_reconcile: dict[Key, tuple[int, float]] = {}

    async def reconcile(self, key: Key) -> Result | None:
        """Reconcile one clique."""
        wait = self._get_reconcile_delay(key)
        if wait > 0:
            return Result(wait)
        try:
            return await self._reconcile_now(key)
        except Exception:
            # The retry has its own backoff, which a skipped reconcile would reset.
            self._next_reconcile.pop(key, None)
            raise

    async def _reconcile_now(self, key: Key) -> Result | None:
        observed = self._observe(key)
        if observed is None:
            return None
        if observed.clique.metadata.deletion_timestamp is not None:
            await self._finalize(observed)
            return None
        plan = desire(observed, self._now())
        failure = None
        if not plan.is_idle:
            with self._congestion.track_write():
                failure = await self._apply_plan(observed, plan)
            # One status write for the changes and for their effects so far.
            observed = self._observe(key)
            if observed is None:
                return None
            plan = desire(observed, self._now())
        status = plan.status
        if failure is not None:
            status = build_error_status(observed.clique, status, failure.message, self._now())
        if observed.limit_violation is not None:
            message, now = str(observed.limit_violation), self._now()
            status = build_error_status(observed.clique, status, message, now, code=OVER_LIMIT_CODE)
            self._record_limit_event(observed.clique, status, observed.limit_violation)
        pause = await self._write_status_throttled(observed.clique, status)
        if failure is not None:
            raise failure
        waits = [
            each
            for each in (
                pause,
                plan.requeue_after,
                _LIMIT_RECHECK_SECONDS if observed.limit_violation else None,
            )
            if each
        ]
        return Result(min(waits)) if waits else None

    def _get_reconcile_delay(self, key: Key) -> float:
        """Seconds until a big clique may be reconciled again; 0 if its spec has changed."""
        clique, now = self._caches.cliques.store.get(key), self._monotonic()
        known, until = self._next_reconcile.pop(key, (0, now))
        if clique is None:
            return 0.0
        generation = clique.metadata.generation
        if known == generation and until > now:
            self._next_reconcile[key] = (known, until)
            return until - now
        pods = self._caches.pods.store.count_by_index(BY_CLIQUE, key)
        pause = min(_PAUSE_SECONDS_PER_POD * pods, self._settings.status_write_interval)
        if pause >= _MIN_PAUSE_SECONDS:
            self._next_reconcile[key] = (generation, now + pause)
        return 0.0

    def _observe(self, key: Key) -> ObservedClique | None:
        clique = self._caches.cliques.store.get(key)
        if clique is None:
            self._pod_backoff.forget(key)
            return None
        set_key = get_set_key(clique.metadata)
        set_ = None if set_key is None else self._caches.sets.store.get(set_key)
        pods = self._caches.pods.store.by_index(BY_CLIQUE, key)
        return ObservedClique(
            clique,
            set_,
            pods,
            self._get_gang(clique, names.POD_GANG),
            self._get_gang(clique, names.BASE_POD_GANG),
            self._pod_backoff.compute_delays(clique, pods),
            partial(self._are_dependencies_ready, clique),
            partial(self._is_replica_coherent, clique),
            self._check_limits(clique, set_),
        )

    def _check_limits(self, clique: PodClique, set_: PodCliqueSet | None) -> LimitViolation | None:
        """Why the clique's replicas exceed a limit; None if they do not."""
        if clique.spec.replicas > MAX_PODS:
            rule = f"must not be greater than {MAX_PODS}"
            return LimitViolation("spec.replicas", clique.spec.replicas, rule)
        if set_ is None:
            return None
        key = set_.metadata.namespace, set_.metadata.name
        return check_scale_limits(
            set_, (clique,), partial(list_scalable_objects, self._caches, key)
        )

    def _get_gang(self, clique: PodClique, label: str) -> PodGang | None:
        name = clique.metadata.labels.get(label)
        return self._caches.gangs.store.get((clique.metadata.namespace, name)) if name else None

    def _are_dependencies_ready(self, clique: PodClique) -> bool:
        return all(self._is_dependency_started(clique, name) for name in clique.spec.starts_after)

    def _is_dependency_started(self, clique: PodClique, name: str) -> bool:
        key = clique.metadata.namespace, name
        dependency = self._caches.cliques.store.get(key)
        if dependency is None:
            return self._is_scaled_in(clique, name)
        return has_clique_started(dependency, self._caches.pods.store.by_index(BY_CLIQUE, key))

    def _is_scaled_in(self, clique: PodClique, name: str) -> bool:
        replica, groups = get_replica_key(clique.metadata), self._caches.groups.store
        if replica is None:
            return False
        set_ = self._caches.sets.store.get((replica.namespace, replica.set_name))
        if set_ is None:
            return False
        member = find_group_member(set_.spec.template, replica.set_name, replica.index, name)
        return member is not None and is_scaled_in(
            member, groups.get((replica.namespace, member.group_name))
        )

    def _is_replica_coherent(self, clique: PodClique) -> bool:
        store, find = self._caches.cliques.store, self._caches.pods.store.by_index
        revision = clique.metadata.labels.get(names.GENERATION_HASH, "")
        return not any(
            has_other_revision(each, find(BY_CLIQUE, store.key_of(each)), revision)
            for each in store.by_index(BY_REPLICA, get_replica_key(clique.metadata))
        )

    async def _apply_plan(self, observed: ObservedClique, plan: PodPlan) -> ApiStatusError | None:
        """Write the plan as far as possible; returns the first API error."""
        clique = observed.clique
        # The status is written first: after a crash it shows which pods were selected.
        progress = plan.status.update_progress
        await self._status_writer.write(clique, replace(clique.status, update_progress=progress))
        bodies = [
            build_pod(
                clique,
                observed.set_,
                pod.index,
                pod.name,
                gated=pod.gated,
                released=pod.released,
                settings=self._settings,
            )
            for pod in plan.create
        ]
        results = [
            await _catch_api_error(self._pod_writer.ungate_and_release(plan.ungate, plan.release)),
            await _catch_api_error(self._pod_writer.delete(clique, plan.delete)),
            await _catch_api_error(self._pod_writer.create(clique, bodies)),
        ]
        return next((each for each in results if each is not None), None)

    async def _write_status_throttled(
        self, clique: PodClique, status: PodCliqueStatus
    ) -> float | None:
        """Write a status, or return after how many seconds it may be written."""
        known = clique.metadata
        if status == clique.status:
            return None
        gang = known.namespace, known.labels.get(names.POD_GANG, "")
        others_wait = self._caches.cliques.store.count_by_index(BY_BASE_GANG, gang) > 0
        urgent = is_urgent(clique, status, others_wait=others_wait)
        # Nothing depends on the first status of a new clique.
        deferrable = clique.status.observed_generation is None and not others_wait
        wait = self._throttle.get_delay(known.uid, urgent=urgent, deferrable=deferrable)
        if wait > 0:
            if deferrable:
                self._congestion.requeue_when_uncongested(
                    _CONTROLLER_NAME, (known.namespace, known.name)
                )
            return wait
        self._throttle.record_write(known.uid)
        await self._status_writer.write(clique, status)
        if has_lost_all(clique, status):
            message = "All scheduled pods of the PodClique were lost"
            self._pod_writer.record_event(clique, "AllScheduledReplicasLost", message, warning=True)
        return None

    def _record_limit_event(
        self, clique: PodClique, status: PodCliqueStatus, violation: LimitViolation
    ) -> None:
        """Record an event once when a clique exceeds a limit."""
        if status.last_errors != clique.status.last_errors:
            self._pod_writer.record_event(
                clique, LIMIT_EXCEEDED_REASON, str(violation), warning=True
            )

    async def _finalize(self, observed: ObservedClique) -> None:
        """Delete the pods of a deleted clique, and remove its finalizer."""
        clique, known = observed.clique, observed.clique.metadata
        pods = [
            pod
            for pod in observed.pods
            if is_controlled_by(clique, pod) and not is_terminating(pod)
        ]
        await self._pod_writer.delete(clique, pods)
        if names.CLIQUE_FINALIZER not in known.finalizers:
            return
        remaining = [each for each in known.finalizers if each != names.CLIQUE_FINALIZER]
        fields = {"finalizers": remaining, "resourceVersion": known.resource_version}
        try:
            written = await self._client.patch(
                CLIQUES, known.name, {"metadata": fields}, known.namespace
            )
        except NotFound:
            return
        if written.metadata.finalizers:
            await self._expectations.wait_for_version(written.metadata.resource_version)
        else:
            # Events of its terminating pods must not trigger a second removal of the finalizer.
            await self._expectations.wait_for_removal((known.namespace, known.name), known.uid)


async def _catch_api_error(write: Awaitable[None]) -> ApiStatusError | None:
    try:
        await write
    except ApiStatusError as error:
        return error
    return None
