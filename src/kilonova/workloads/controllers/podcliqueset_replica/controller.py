"""The controller of replicas. A key is one replica of a set."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from kilonova.api.grove import PodCliqueScalingGroup, names
from kilonova.api.grove.common import LastError
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.times import format_rfc3339
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Conflict,
    Controller,
    Key,
    Resource,
    Result,
)
from kilonova.kube.controllers.slow_start import raise_first_failure
from kilonova.kube.status import StatusThrottle, build_status_patch, is_condition_true
from kilonova.workloads.caches import BY_REPLICA, list_scalable_objects
from kilonova.workloads.context import ControllerContext
from kilonova.workloads.controllers.podcliqueset_replica.desire import desire
from kilonova.workloads.controllers.podcliqueset_replica.event_handlers import ReplicaEventHandlers
from kilonova.workloads.controllers.podcliqueset_replica.gang_status import (
    SCHEDULED,
    build_gang_status,
    is_deferrable,
    is_urgent,
)
from kilonova.workloads.controllers.podcliqueset_replica.gang_termination import (
    RestartDecision,
    decide_restarts,
    get_termination_delay,
)
from kilonova.workloads.controllers.podcliqueset_replica.observed import (
    ObservedReplica,
    is_being_deleted,
    observe_replica,
)
from kilonova.workloads.controllers.podcliqueset_replica.revision_cache import RevisionCache
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import (
    ScalingGroupState,
    compute_group_states,
)
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.status import (
    build_error_status,
    build_group_status,
)
from kilonova.workloads.controllers.podcliqueset_replica.target_revision import (
    select_target_revision,
)
from kilonova.workloads.controllers.podcliqueset_replica.writer import ReplicaWriter, WriteFailed
from kilonova.workloads.keys import ReplicaKey
from kilonova.workloads.limits import (
    LIMIT_EXCEEDED_REASON,
    OVER_LIMIT_CODE,
    LimitViolation,
    check_scale_limits,
    check_set_limits,
)
from kilonova.workloads.resources import GANGS, RESOURCE_CLAIM_TEMPLATES, SCALING_GROUPS, SETS
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.update_strategy import count_desired_replicas

_CONTROLLER_NAME = "podcliqueset-replica"
_WORKERS = 64
_BACKOFF = Backoff(0.005, 10.0)
"""Conflicting objects are often not watched: that one is gone is found by retrying."""
_LIMIT_RECHECK_SECONDS = 10.0
"""Another object of the set may be scaled in meanwhile."""
_MAX_PASSES = 5
"""More than a replica needs from scratch: a difference that remains is not worth writing again."""


def build_replica_controller(context: ControllerContext) -> Controller:
    """Build the controller; the caches must be running."""
    reconciler = _ReplicaReconciler(context)
    controller = Controller(
        _CONTROLLER_NAME,
        reconciler.reconcile,
        ReplicaEventHandlers(context.caches).list_watches(),
        workers=_WORKERS,
        backoff=_BACKOFF,
        runtime_metrics=context.runtime_metrics,
    )
    context.congestion.register_controller(_CONTROLLER_NAME, controller.queue.add)
    return controller


@dataclass(frozen=True, slots=True)
class _Assessment:
    """An observed replica, and what follows from its state."""

    observed: ObservedReplica
    revision: SetRevision
    groups: list[ScalingGroupState]
    restarts: RestartDecision


@dataclass(slots=True)
class _ReconcileState:
    """State of one reconcile."""

    replica: ReplicaKey
    claim_templates: dict[Key, JsonObject] = field(default_factory=dict[Key, JsonObject])
    has_fetched_templates: bool = False
    failure: WriteFailed | None = None
    limit_violation: LimitViolation | None = None


class _ReplicaReconciler:
    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._replica_errors = context.replica_errors
        self._caches = context.caches
        self._settings = context.settings
        self._now = context.now
        self._writer = ReplicaWriter(
            context.client, context.caches, context.recorder, context.monotonic
        )
        self._revisions = RevisionCache(context.caches)
        self._congestion = context.congestion
        self._throttle = StatusThrottle(
            context.settings.status_write_interval, context.monotonic, context.congestion
        )

    async def reconcile(self, key: Key) -> Result | None:
        """Reconcile one replica."""
        state = _ReconcileState(ReplicaKey.from_queue_key(key))
        await self._finalize_groups(state.replica)
        assessment = await self._converge(state)
        if state.limit_violation is not None:
            return await self._report_limit_violation(state.replica, state.limit_violation)
        error = _to_last_error(state.failure, self._now()) if assessment is not None else None
        self._replica_errors.record(state.replica, error)
        if assessment is None:
            return None
        delays = [*await self._write_statuses(assessment, error), assessment.restarts.requeue_after]
        if state.failure is not None:
            self._writer.record_failure_event(assessment.observed.set_, state.failure)
            raise state.failure.error
        delays = [each for each in delays if each is not None]
        return Result(min(delays)) if delays else None

    async def _report_limit_violation(
        self, replica: ReplicaKey, violation: LimitViolation
    ) -> Result:
        """Leave all objects of the replica as they are, and report why."""
        error = LastError(OVER_LIMIT_CODE, str(violation), format_rfc3339(self._now()))
        self._replica_errors.record(replica, error)
        set_ = self._caches.sets.store.get((replica.namespace, replica.set_name))
        if set_ is not None:
            self._writer.record_event(
                SETS, set_.metadata, LIMIT_EXCEEDED_REASON, str(violation), warning=True
            )
        for group in self._caches.groups.store.by_index(BY_REPLICA, replica):
            patch = build_status_patch(group.status, build_error_status(group, error))
            if patch is not None and not is_being_deleted(group.metadata):
                await self._writer.write_status(SCALING_GROUPS, group.metadata, patch)
        return Result(_LIMIT_RECHECK_SECONDS)

    async def _converge(self, state: _ReconcileState) -> _Assessment | None:
        """Write until nothing differs; the replica as it is then, or None if it is not desired.

        Writes enable further writes: cliques follow their gangs and groups.
        """
        for _ in range(_MAX_PASSES):
            assessment = self._assess(state)
            if assessment is None:
                return None
            observed, restarts = assessment.observed, assessment.restarts
            plan = desire(
                observed, assessment.revision, assessment.groups, restarts.cliques, self._settings
            )
            if plan.claim_templates and not state.has_fetched_templates:
                await self._fetch_claim_templates(state, plan.claim_templates)
                continue
            if plan.is_empty:
                return assessment
            if restarts.whole_replica:
                await self._write_termination_status(assessment)
            try:
                with self._congestion.track_write():
                    await self._writer.apply(plan, observed.set_)
            except WriteFailed as failure:
                state.failure = failure
                break
            self._record_restart_events(assessment)
            for each in plan.next_creates:
                # The first status of a new object waits for further changes.
                self._throttle.record_write(
                    (each.resource.kind, state.replica.namespace, each.name)
                )
        return self._assess(state)

    def _assess(self, state: _ReconcileState) -> _Assessment | None:
        replica = state.replica
        set_ = self._caches.sets.store.get((replica.namespace, replica.set_name))
        if set_ is None or is_being_deleted(set_.metadata):
            return None
        if replica.index >= count_desired_replicas(set_) or check_set_limits(set_.spec) is not None:
            return None
        known = self._revisions.get_revisions(set_)
        observed = observe_replica(
            self._caches,
            replica,
            set_,
            known.current,
            known.by_hash,
            state.claim_templates,
            self._now(),
        )
        revision = select_target_revision(observed)
        if revision is None:
            return None
        state.limit_violation = self._check_limits(observed)
        if state.limit_violation is not None:
            return None
        groups = compute_group_states(observed, revision)
        return _Assessment(
            observed, revision, groups, decide_restarts(observed, groups, self._now())
        )

    def _check_limits(self, observed: ObservedReplica) -> LimitViolation | None:
        """Why the set exceeds a limit as this replica is scaled; None if it does not."""
        key = observed.set_.metadata.namespace, observed.set_.metadata.name
        own = (*observed.groups.values(), *observed.cliques.values())
        return check_scale_limits(
            observed.set_, own, partial(list_scalable_objects, self._caches, key)
        )

    async def _fetch_claim_templates(self, state: _ReconcileState, wanted: frozenset[Key]) -> None:
        """Read claim templates; a missing one is an error that is retried."""
        state.has_fetched_templates = True
        for namespace, name in wanted:
            try:
                found = await self._client.get(RESOURCE_CLAIM_TEMPLATES, name, namespace)
            except ApiStatusError as error:
                state.failure = WriteFailed("Read", RESOURCE_CLAIM_TEMPLATES, name, error)
            else:
                state.claim_templates[namespace, name] = found.spec

    async def _write_termination_status(self, assessment: _Assessment) -> None:
        """Report the restart in the status before it happens, so that it survives a crash."""
        now = self._now()
        for group_state in assessment.groups:
            group = group_state.group
            if group is not None:
                report = build_group_status(
                    assessment.observed,
                    group_state,
                    group,
                    assessment.revision,
                    now,
                    terminating=True,
                )
                patch = build_status_patch(group.status, report.status)
                if patch is not None:
                    await self._writer.write_status(SCALING_GROUPS, group.metadata, patch)

    def _record_restart_events(self, assessment: _Assessment) -> None:
        restarts, observed = assessment.restarts, assessment.observed
        delay = get_termination_delay(observed.set_)
        if restarts.whole_replica:
            message = _format_restart(observed.index, delay)
            reason = "PodCliqueSetReplicaDeleteSuccessful"
            self._writer.record_event(SETS, observed.set_.metadata, reason, message)
        for name, index in restarts.group_replicas:
            message = _format_restart(index, delay)
            reason = "PodCliqueScalingGroupReplicaDeleteSuccessful"
            self._writer.record_event(
                SCALING_GROUPS, observed.groups[name].metadata, reason, message
            )

    async def _write_statuses(
        self, assessment: _Assessment, error: LastError | None
    ) -> list[float | None]:
        """Write the statuses of groups and gangs; returns delays after which to reconcile again."""
        now = self._now()
        groups = [
            self._write_group_status(assessment, group_state, group_state.group, error, now)
            for group_state in assessment.groups
            if group_state.group is not None
        ]
        results = await asyncio.gather(
            *groups, self._write_gang_statuses(assessment.observed, now), return_exceptions=True
        )
        raise_first_failure(results)
        delays: list[float | None] = []
        for each in results:
            if isinstance(each, list):
                delays += each
        return delays

    async def _write_group_status(
        self,
        assessment: _Assessment,
        group_state: ScalingGroupState,
        group: PodCliqueScalingGroup,
        error: LastError | None,
        now: datetime,
    ) -> list[float | None]:
        report = build_group_status(
            assessment.observed, group_state, group, assessment.revision, now, error=error
        )
        patch = build_status_patch(group.status, report.status)
        if patch is None:
            return [report.requeue_after]
        wait = self._reserve_status_write(SCALING_GROUPS, group.metadata)
        if wait > 0:
            return [report.requeue_after, wait]
        await self._writer.write_status(SCALING_GROUPS, group.metadata, patch)
        return [report.requeue_after]

    async def _write_gang_statuses(
        self, observed: ObservedReplica, now: datetime
    ) -> list[float | None]:
        live = [each for each in observed.gangs.values() if not is_being_deleted(each.metadata)]
        reports = [(each, build_gang_status(observed, each, now)) for each in live]
        writes: list[Awaitable[None]] = []
        delays: list[float | None] = []
        for gang, status in reports:
            patch = build_status_patch(gang.status, status)
            if patch is None:
                continue
            # Scaled gangs wait for their base to be scheduled.
            was, has = (
                is_condition_true(gang.status.conditions, SCHEDULED),
                is_condition_true(status.conditions, SCHEDULED),
            )
            is_awaited = len(live) > 1 and has and not was
            wait, deferrable = 0.0, is_deferrable(gang)
            if not is_awaited:
                urgent = is_urgent(gang, status)
                wait = self._reserve_status_write(
                    GANGS, gang.metadata, urgent=urgent, deferrable=deferrable
                )
            if wait > 0:
                delays.append(wait)
                if deferrable:
                    replica = ReplicaKey(
                        gang.metadata.namespace, observed.set_.metadata.name, observed.index
                    )
                    self._congestion.requeue_when_uncongested(_CONTROLLER_NAME, replica.queue_key)
                continue
            # The scheduler writes this status too.
            writes.append(
                self._writer.write_status(GANGS, gang.metadata, patch, require_version=True)
            )
        raise_first_failure(await asyncio.gather(*writes, return_exceptions=True))
        return delays

    def _reserve_status_write(
        self,
        resource: Resource[Any],
        metadata: Metadata,
        *,
        urgent: bool = True,
        deferrable: bool = False,
    ) -> float:
        """Seconds until a status may be written; if 0, the write is recorded."""
        key = (resource.kind, metadata.namespace, metadata.name)
        wait = self._throttle.get_delay(key, urgent=urgent, deferrable=deferrable)
        if not wait:
            self._throttle.record_write(key)
        return wait

    async def _finalize_groups(self, replica: ReplicaKey) -> None:
        """Remove the finalizer of deleted scaling groups; owned objects are garbage collected."""
        for group in self._caches.groups.store.by_index(BY_REPLICA, replica):
            known = group.metadata
            if is_being_deleted(known) and names.SCALING_GROUP_FINALIZER in known.finalizers:
                await self._writer.remove_finalizer(
                    SCALING_GROUPS, known, names.SCALING_GROUP_FINALIZER
                )


def _format_restart(index: int, delay: str) -> str:
    return (
        f"Restarted replica {index}: below minAvailable for longer than terminationDelay ({delay})"
    )


def _to_last_error(failure: WriteFailed | None, now: datetime) -> LastError | None:
    """The error for `lastErrors`; a conflict is only retried."""
    if failure is None or isinstance(failure.error, Conflict):
        return None
    return LastError(failure.code, failure.description, format_rfc3339(now))
