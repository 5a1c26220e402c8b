"""The HorizontalPodAutoscaler controller, with a sync every fifteen seconds."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import (
    ApiStatusError,
    Client,
    Controller,
    KubeError,
    Reflector,
    Resource,
    Result,
    Watch,
)
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.informers.object_keys import Key
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.selectors import LabelSelector, parse_label_selector
from kilonova.local.clock import Clock
from kilonova.local.controllers.podautoscaler.metric_replicas import (
    MetricReplicaCalculator,
    MetricResult,
    MetricUnavailable,
    ScaleTarget,
)
from kilonova.local.controllers.podautoscaler.metrics_client import MetricsReader
from kilonova.local.controllers.podautoscaler.objects import (
    AUTOSCALERS,
    Autoscaler,
    AutoscalerStatus,
)
from kilonova.local.controllers.podautoscaler.replica_calculator import Tolerances
from kilonova.local.controllers.podautoscaler.scale_limits import (
    ScalingHistory,
    TimedReplicas,
    limit_scale,
)
from kilonova.local.controllers.podautoscaler.status_recorder import AutoscalerStatusRecorder
from kilonova.local.controllers.shared.scales import Scale, ScaleClient, ScaleUnavailable
from kilonova.local.objects.core import Pod
from kilonova.local.objects.indexes import add_index_once

_SYNC_PERIOD = 15.0
_WORKERS = 5
_BY_NAMESPACE = "namespace"


@dataclass(slots=True)
class _AutoscalerState:
    next_sync: float
    history: ScalingHistory = field(default_factory=ScalingHistory)
    selector: LabelSelector | None = None


class AutoscalerController:
    """Scales the targets of autoscalers."""

    def __init__(
        self,
        client: Client,
        autoscalers: Reflector[Autoscaler],
        pods: Reflector[Pod],
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._autoscalers = autoscalers
        self._pods = pods
        self._events = events
        self._clock = clock
        self._scales = ScaleClient(client)
        self._replica_calculator = MetricReplicaCalculator(MetricsReader(client))
        self._states: dict[Key, _AutoscalerState] = {}
        add_index_once(pods.store, _BY_NAMESPACE, lambda pod: (pod.metadata.namespace,))

    def controller(self) -> Controller:
        watches = [Watch(self._autoscalers)]
        return Controller("autoscalers", self._reconcile, watches, workers=_WORKERS)

    async def _reconcile(self, key: Key) -> Result | None:
        found = self._autoscalers.store.get(key)
        if found is None:
            self._states.pop(key, None)
            return None
        now = self._clock.monotonic()
        state = self._states.setdefault(key, _AutoscalerState(now + _SYNC_PERIOD))
        if state.next_sync > now:
            return Result(state.next_sync - now)
        state.next_sync = now + _SYNC_PERIOD
        recorder = AutoscalerStatusRecorder(found, self._clock.now())
        await self._sync(key, found, state, recorder)
        await self._write_status(found, recorder.status)
        self._record_events(found, recorder)
        return Result(_SYNC_PERIOD)

    async def _sync(
        self,
        key: Key,
        autoscaler: Autoscaler,
        state: _AutoscalerState,
        recorder: AutoscalerStatusRecorder,
    ) -> None:
        """One sync: read the scale and metrics, decide, scale; `recorder` collects what happens."""
        target = autoscaler.spec.scale_target_ref
        try:
            resource = await self._scales.find_resource(target.group, target.kind)
            scale = await self._scales.read_scale(
                resource, target.name, autoscaler.metadata.namespace
            )
        except (ScaleUnavailable, KubeError) as problem:
            recorder.report_scale_unavailable(_error_message(problem))
            return
        recorder.report_scale_read()
        current, spec = scale.spec.replicas, autoscaler.spec
        if not state.history.recommendations:
            state.history = ScalingHistory((TimedReplicas(self._clock.monotonic(), current),))
        statuses: list[JsonObject] = []
        reason = ""
        if current == 0:
            recorder.report_scaling_disabled()
            desired = 0
        elif current > spec.max_replicas:
            desired, reason = spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        elif current < spec.min_replicas:
            desired, reason = spec.min_replicas, "Current number of replicas below Spec.MinReplicas"
        else:
            best = await self._compute_replicas(key, autoscaler, scale, recorder, statuses)
            if best is None:
                recorder.set_replicas(current, autoscaler.status.desired_replicas, statuses)
                return
            limited = limit_scale(
                spec, current, best.replicas, state.history, self._clock.monotonic()
            )
            state.history = limited.history
            recorder.report_limits(limited)
            desired = limited.replicas
            if best.replicas > current:
                reason = f"{best.title} above target"
            elif best.replicas < current:
                reason = "All metrics below target"
        if desired != current:
            scaled = await self._scale(autoscaler, resource, desired, reason, recorder)
            if not scaled:
                recorder.set_replicas(current, autoscaler.status.desired_replicas, statuses)
                return
            now = self._clock.monotonic()
            state.history = state.history.record_scaling(current, desired, spec.behavior, now)
        recorder.set_replicas(current, desired, statuses)

    async def _compute_replicas(
        self,
        key: Key,
        autoscaler: Autoscaler,
        scale: Scale,
        recorder: AutoscalerStatusRecorder,
        statuses: list[JsonObject],
    ) -> MetricResult | None:
        """The metric with the largest proposal; None if it cannot be determined."""
        pods = self._select_pods(key, autoscaler, scale.status.selector, recorder)
        if pods is None:
            return None
        target = ScaleTarget(
            autoscaler.metadata.namespace,
            scale.status.selector,
            pods,
            scale.spec.replicas,
            scale.status.replicas,
            Tolerances.from_behavior(autoscaler.spec.behavior),
            self._clock.now(),
        )
        best: MetricResult | None = None
        failed: list[MetricUnavailable] = []
        for metric in autoscaler.spec.metrics:
            try:
                measured = await self._replica_calculator.compute(metric, target)
            except MetricUnavailable as problem:
                failed.append(problem)
                recorder.record_warning(problem.reason, problem.detail)
                statuses.append({"type": ""})
                continue
            statuses.append(measured.status)
            if best is None or not best.replicas or measured.replicas > best.replicas:
                best = measured
        if best is None or (failed and best.replicas < target.spec_replicas):
            recorder.report_metrics_unavailable(failed, len(autoscaler.spec.metrics))
            return None
        recorder.report_scaling_active(best.title)
        return best

    def _select_pods(
        self, key: Key, autoscaler: Autoscaler, selector: str, recorder: AutoscalerStatusRecorder
    ) -> list[Pod] | None:
        """The pods of a scale's selector, if no other autoscaler selects them."""
        if not selector:
            recorder.report_missing_selector()
            return None
        try:
            parsed = parse_label_selector(selector)
        except ApiError as problem:
            recorder.report_invalid_selector(problem.message)
            return None
        self._states[key].selector = parsed
        namespace = autoscaler.metadata.namespace
        in_namespace = self._pods.store.by_index(_BY_NAMESPACE, namespace)
        pods = [pod for pod in in_namespace if parsed.matches(pod.metadata.labels)]
        competing = [
            other
            for other, state in self._states.items()
            if other[0] == namespace
            and state.selector is not None
            and any(state.selector.matches(pod.metadata.labels) for pod in pods)
        ]
        if len(competing) > 1:
            recorder.report_ambiguous_selector(
                selector, ["/".join(competitor) for competitor in competing]
            )
            return None
        return pods

    async def _scale(
        self,
        autoscaler: Autoscaler,
        resource: Resource[Any],
        desired: int,
        reason: str,
        recorder: AutoscalerStatusRecorder,
    ) -> bool:
        name, namespace = autoscaler.spec.scale_target_ref.name, autoscaler.metadata.namespace
        try:
            await self._client.set_scale(resource, name, namespace, desired)
        except KubeError as problem:
            recorder.report_scale_failed(desired, reason, _error_message(problem))
            return False
        recorder.report_scaled(desired, reason)
        return True

    async def _write_status(self, autoscaler: Autoscaler, status: AutoscalerStatus) -> None:
        if status == autoscaler.status:
            return
        metadata = autoscaler.metadata
        body: JsonObject = msgspec.to_builtins(status)
        if not status.current_replicas:
            body["currentReplicas"] = None
        patch = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": body,
        }
        await self._client.patch(
            AUTOSCALERS, metadata.name, patch, metadata.namespace, subresource="status"
        )

    def _record_events(self, autoscaler: Autoscaler, recorder: AutoscalerStatusRecorder) -> None:
        metadata = autoscaler.metadata
        about = ObjectReference.to(AUTOSCALERS, metadata.name, metadata.namespace, metadata.uid)
        for reason, message, warning in recorder.events:
            self._events.event(about, reason, message, warning=warning)


def _error_message(problem: Exception) -> str:
    return problem.message if isinstance(problem, ApiStatusError) else str(problem)
