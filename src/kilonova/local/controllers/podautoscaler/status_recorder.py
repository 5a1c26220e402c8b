"""Records the conditions, counts and events of an autoscaler's sync."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.kube.status import with_condition
from kilonova.local.controllers.podautoscaler.metric_replicas import MetricUnavailable
from kilonova.local.controllers.podautoscaler.objects import Autoscaler, AutoscalerCondition
from kilonova.local.controllers.podautoscaler.scale_limits import LimitedScale

replace = msgspec.structs.replace


class AutoscalerStatusRecorder:
    """Collected in order; the last update of a condition counts."""

    def __init__(self, autoscaler: Autoscaler, now: datetime) -> None:
        self.status = autoscaler.status
        self.events: list[tuple[str, str, bool]] = []
        self._now = now

    def record_warning(self, reason: str, message: str) -> None:
        self.events.append((reason, message, True))

    def report_scale_unavailable(self, problem: str) -> None:
        self.record_warning("FailedGetScale", problem)
        text = f"the HPA controller was unable to get the target's current scale: {problem}"
        self._set_condition("AbleToScale", "False", "FailedGetScale", text)

    def report_scale_read(self) -> None:
        text = "the HPA controller was able to get the target's current scale"
        self._set_condition("AbleToScale", "True", "SucceededGetScale", text)

    def report_scaling_disabled(self) -> None:
        text = "scaling is disabled since the replica count of the target is zero"
        self._set_condition("ScalingActive", "False", "ScalingDisabled", text)

    def report_missing_selector(self) -> None:
        self.record_warning("SelectorRequired", "selector is required")
        text = "the HPA target's scale is missing a selector"
        self._set_condition("ScalingActive", "False", "InvalidSelector", text)
        self.record_warning("FailedComputeMetricsReplicas", "selector is required")

    def report_invalid_selector(self, problem: str) -> None:
        text = f"couldn't convert selector into a corresponding internal selector object: {problem}"
        self._report_selector_problem("InvalidSelector", text)

    def report_ambiguous_selector(self, selector: str, autoscalers: Sequence[str]) -> None:
        listed = " ".join(autoscalers)
        text = f"pods by selector {selector} are controlled by multiple HPAs: [{listed}]"
        self._report_selector_problem("AmbiguousSelector", text)

    def report_metrics_unavailable(self, failed: Sequence[MetricUnavailable], metrics: int) -> None:
        first = failed[0]
        text = f"the HPA was unable to compute the replica count: {first.detail}"
        self._set_condition("ScalingActive", "False", first.reason, text)
        counted = f"invalid metrics ({len(failed)} invalid out of {metrics})"
        self.record_warning("FailedComputeMetricsReplicas", f"{counted}, first error is: {first}")

    def report_scaling_active(self, metric: str) -> None:
        text = f"the HPA was able to successfully calculate a replica count from {metric}"
        self._set_condition("ScalingActive", "True", "ValidMetricFound", text)

    def report_limits(self, limited: LimitedScale) -> None:
        self._set_condition("AbleToScale", "True", *limited.able_to_scale)
        self._set_condition(
            "ScalingLimited", "True" if limited.is_limited else "False", *limited.scaling_limited
        )

    def report_scaled(self, replicas: int, reason: str) -> None:
        text = f"the HPA controller was able to update the target scale to {replicas}"
        self._set_condition("AbleToScale", "True", "SucceededRescale", text)
        self.events.append(("SuccessfulRescale", f"New size: {replicas}; reason: {reason}", False))
        self.status = replace(self.status, last_scale_time=format_rfc3339(self._now))

    def report_scale_failed(self, replicas: int, reason: str, problem: str) -> None:
        text = f"New size: {replicas}; reason: {reason}; error: {problem}"
        self.record_warning("FailedRescale", text)
        text = f"the HPA controller was unable to update the target scale: {problem}"
        self._set_condition("AbleToScale", "False", "FailedUpdateScale", text)

    def set_replicas(self, current: int, desired: int, metrics: Sequence[JsonObject]) -> None:
        self.status = replace(
            self.status,
            current_replicas=current,
            desired_replicas=desired,
            current_metrics=tuple(metrics) or None,
        )

    def _report_selector_problem(self, reason: str, text: str) -> None:
        self.record_warning(reason, text)
        self._set_condition("ScalingActive", "False", reason, text)
        self.record_warning("FailedComputeMetricsReplicas", text)

    def _set_condition(self, type_: str, status: str, reason: str, message: str) -> None:
        desired = AutoscalerCondition(type_, status, reason=reason, message=message)
        conditions = with_condition(self.status.conditions or (), desired, self._now)
        self.status = replace(self.status, conditions=conditions)
