"""Writes scheduling results: conditions of gangs and pods, and events.

- A PodGang's condition `Unschedulable` states why the gang is pending; its `placementScore` rates
  its placement. A Kubernetes PodGroup gets `PodGroupScheduled`. Nothing is written to coscheduling
  PodGroups: their own controller does that.
- A pod without capacity gets `PodScheduled` False with the reason `Unschedulable`, for which
  cluster autoscalers add nodes. One that is blocked only by its queue gets `QueueLimitReached`, for
  which they do not.

A status is written only where the informers show another one, and at most once per status interval.
Pods that are bound at once get only events, and their gang its score.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGang
from kilonova.kube import (
    Conflict,
    Controller,
    Key,
    Result,
    Store,
)
from kilonova.kube.events import ObjectReference
from kilonova.kube.status import (
    StatusThrottle,
    apply_status,
    encode_condition,
    find_condition,
    has_same_content,
    keep_transition_time,
)
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.convert.gangs.podgangs import (
    GangNotReady,
    is_schedulable,
    is_single_pod_gang,
    single_pod_key,
)
from kilonova.scheduler.core.backfill.shadow import BackfillReservation
from kilonova.scheduler.core.decisions import GangPlacement, UnschedulableGang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.topology.placement_score import compute_placement_score
from kilonova.scheduler.failures.binding_rejections import BindingRejection
from kilonova.scheduler.objects.core_v1 import GANGS, PODS, Pod
from kilonova.scheduler.objects.keys import split_key
from kilonova.scheduler.status.conditions import gang_condition, reported_object
from kilonova.scheduler.status.results import (
    WAITING_FOR_TERMINATION,
    SchedulingResult,
    binding_rejected_result,
    placed_result,
    rejected_result,
    waiting_result,
)

_WORKERS = 8
_MIN_DELAY_SECONDS = 0.001
"""A shorter delay is treated as zero: it may be below the resolution of the clock."""
_MAX_POD_EVENTS = 50
"""Scheduled events of single pods are skipped while more results than this are pending. In a larger
gang than this, pods get no event when only the message changes."""

Explain = Callable[[UnschedulableGang, BackfillReservation | None], str]
"""Explains why a gang is unschedulable; called only when the status is written."""

_PendingResult = SchedulingResult | tuple[UnschedulableGang, BackfillReservation | None]


class GangStatusWriter:
    """Keeps the latest result of each gang; its controller writes them."""

    def __init__(
        self,
        context: SchedulerContext,
        cache: SchedulerCache,
        gangs: Store[PodGang],
        explain: Explain,
    ) -> None:
        self._client = context.client
        self._cache = cache
        self._gangs = gangs
        self._events = context.recorder
        self._explain = explain
        self._now = context.now
        self._status_interval = context.settings.status_interval
        self._levels = context.settings.policy.levels
        self._throttle = StatusThrottle(context.settings.status_interval, context.monotonic)
        self._pending: dict[Key, tuple[Gang, _PendingResult]] = {}
        self.controller = Controller(
            "gang-status",
            self._reconcile,
            [],
            workers=_WORKERS,
            runtime_metrics=context.runtime_metrics,
        )

    def record_rejections(
        self, rejections: Sequence[UnschedulableGang], reservation: BackfillReservation | None
    ) -> None:
        """Record gangs that were unschedulable in a cycle."""
        self._forget_deleted()
        for rejection in rejections:
            self._enqueue(rejection.gang, (rejection, reservation))

    def record_not_ready(self, not_ready: Mapping[str, GangNotReady]) -> None:
        """Record gangs and pods that cannot be scheduled as they are, for example because of an
        invalid request."""
        for name, each in not_ready.items():
            result = SchedulingResult(
                False, each.reason, each.message, is_not_capacity_related=True
            )
            known = self._pending.get(split_key(name))
            if known is None or known[1] != result:
                self._enqueue(Gang(name, ()), result)

    def record_placement(self, placement: GangPlacement, failed: list[PodPlacement]) -> None:
        """Record a gang whose bindings were written, except for `failed`."""
        if not failed:
            key = split_key(placement.gang.name)
            if not _is_single_pod(key) or len(self._pending) < _MAX_POD_EVENTS:
                self._emit_scheduled_events(placement)
            known = self._pending.pop(key, None)
            if not _is_single_pod(key) or known is not None:
                self._enqueue(placement.gang, placed_result(placement))

    def record_waiting_for_victims(self, gang: Gang, pods: Sequence[str]) -> None:
        """Record a gang that is placed and waits for pods to terminate."""
        result = waiting_result(pods)
        known = self._pending.get(split_key(gang.name))
        if known is None or known[1] != result:
            self._enqueue(gang, result)

    def record_binding_rejections(self, gang: Gang, rejections: Sequence[BindingRejection]) -> None:
        """Record bindings of a gang that the API server rejected."""
        if rejections:
            self._enqueue(gang, binding_rejected_result(rejections))

    def _forget_deleted(self) -> None:
        """Drop pending results of deleted gangs; done only when many have accumulated."""
        waiting, reported = self._cache.waiting, self._cache.reported_not_ready
        if len(self._pending) > 2 * (len(waiting) + len(reported)) + _MAX_POD_EVENTS:
            for key in list(self._pending):
                name = "/".join(key)
                if name not in waiting and name not in reported:
                    self._forget(key)

    def _forget(self, key: Key) -> None:
        self._pending.pop(key, None)
        self._throttle.forget(key)

    def _enqueue(self, gang: Gang, pending: _PendingResult) -> None:
        key = split_key(gang.name)
        self._pending[key] = gang, pending
        self.controller.queue.add(key)

    async def _reconcile(self, key: Key) -> Result | None:
        found = self._pending.get(key)
        if found is None:
            return None
        delay = self._throttle.get_delay(key)
        if delay > _MIN_DELAY_SECONDS:
            return Result(delay)
        gang, pending = found
        result = (
            pending
            if isinstance(pending, SchedulingResult)
            else rejected_result(*pending, self._explain)
        )
        self._throttle.record_write(key)
        if not _is_single_pod(key):
            await self._write_gang_status(key, result)
        if result.is_placed:
            self._forget(key)
            return None
        unbound_pods = self._unbound_pods(
            gang, include_assumed=result.reason == WAITING_FOR_TERMINATION
        )
        emit_events = len(unbound_pods) <= _MAX_POD_EVENTS
        written = [
            await self._write_pod_condition(pod, result, emit_event=emit_events)
            for pod in unbound_pods
        ]
        if _is_single_pod(key) and not written:
            self._forget(key)
        return None if all(written) else Result(self._status_interval)

    async def _write_gang_status(self, key: Key, result: SchedulingResult) -> None:
        gang = self._gangs.get(key)
        if gang is None:
            self._forget(key)
            return
        resource, namespace = reported_object(gang)
        reference = ObjectReference.to(resource, key[1], namespace, gang.metadata.uid)
        if result.is_placed:
            self._events.event(reference, "Scheduled", result.message)
        new = gang_condition(gang, result)
        if new is None:
            return
        old = find_condition(gang.status.conditions, new.type)
        if not result.is_placed and (old is None or old.message != new.message):
            self._events.event(reference, "FailedScheduling", result.message, warning=True)
        score = self._placement_score("/".join(key)) if resource is GANGS else None
        unchanged = (old is None and result.is_placed) or has_same_content(old, new)
        if unchanged and score == gang.status.placement_score:
            return
        # Server-side apply removes fields that were applied before and are not applied again.
        status: JsonObject = {} if score is None else {"placementScore": score}
        if old is not None or not result.is_placed:
            status["conditions"] = [encode_condition(keep_transition_time(new, old, self._now()))]
        metadata = msgspec.structs.replace(gang.metadata, namespace=namespace)
        await apply_status(self._client, resource, metadata, status)

    def _placement_score(self, gang: str) -> float | None:
        """The placement score of a gang; None if no pod of it is placed."""
        cluster = self._cache.cluster
        running_gang = cluster.running_gangs.get(gang)
        if running_gang is None:
            return None
        placements = cluster.snapshot.placements
        pod_placements = [placements[pod] for pod in running_gang.pods if pod in placements]
        return compute_placement_score(cluster.snapshot, pod_placements, self._levels)

    async def _write_pod_condition(
        self, pod: Pod, result: SchedulingResult, *, emit_event: bool
    ) -> bool:
        """Write a pod's `PodScheduled` condition; False if the pod changed since the cache saw it.

        The pod may have been bound in the meantime, and must not be reported unschedulable after
        that. The first write emits an event; later ones only with `emit_event`: in a large gang the
        event of the gang is enough.
        """
        new = Condition("PodScheduled", "False", result.pod_reason, result.message)
        old = find_condition(pod.status.conditions, new.type)
        if has_same_content(old, new):
            return True
        key = pod.metadata.namespace, pod.metadata.name
        if emit_event or old is None or old.status != new.status:
            reference = ObjectReference.to(PODS, key[1], key[0], pod.metadata.uid)
            self._events.event(reference, "FailedScheduling", result.message, warning=True)
        condition = encode_condition(keep_transition_time(new, old, self._now()))
        status: JsonObject = {"conditions": [condition | {"lastProbeTime": None}]}
        try:
            await apply_status(self._client, PODS, pod.metadata, status, require_version=True)
        except Conflict:
            return False
        return True

    def _unbound_pods(self, gang: Gang, *, include_assumed: bool) -> list[Pod]:
        """The pods of a gang that are neither bound nor, unless `include_assumed`, assumed."""
        keys = [member.pod for group in gang.groups for member in group.members]
        if _is_single_pod(split_key(gang.name)):
            keys = [single_pod_key(gang.name)]
        placements = self._cache.cluster.snapshot.placements
        pods = [
            self._cache.find_pod(key) for key in keys if include_assumed or key not in placements
        ]
        return [pod for pod in pods if pod is not None and is_schedulable(pod)]

    def _emit_scheduled_events(self, placement: GangPlacement) -> None:
        """Emit a `Scheduled` event for each pod, as `kubectl describe pod` shows it."""
        for pod_placement in placement.pods:
            pod = self._cache.find_pod(pod_placement.pod)
            if pod is not None:
                meta = pod.metadata
                reference = ObjectReference.to(PODS, meta.name, meta.namespace, meta.uid)
                node = self._cache.cluster.snapshot.names[pod_placement.row]
                message = f"Successfully assigned {pod_placement.pod} to {node}"
                self._events.event(reference, "Scheduled", message)


def _is_single_pod(key: Key) -> bool:
    return is_single_pod_gang("/".join(key))
