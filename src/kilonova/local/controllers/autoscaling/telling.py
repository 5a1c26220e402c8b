"""What an autoscaler says of a round: its conditions, its numbers, and events."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.local.controllers.autoscaling.measure import Unmeasured
from kilonova.local.controllers.autoscaling.objects import Autoscaler, AutoscalerCondition
from kilonova.local.controllers.autoscaling.pace import Paced

replace = msgspec.structs.replace


class Telling:
    """Gathers it in the order in which it happens; later words on a condition count."""

    def __init__(self, found: Autoscaler, now: datetime) -> None:
        self.status = found.status
        self.events: list[tuple[str, str, bool]] = []
        self._now = rfc3339(now)

    def warn(self, reason: str, message: str) -> None:
        self.events.append((reason, message, True))

    def no_scale(self, problem: str) -> None:
        self.warn("FailedGetScale", problem)
        text = f"the HPA controller was unable to get the target's current scale: {problem}"
        self._set("AbleToScale", "False", "FailedGetScale", text)

    def got_scale(self) -> None:
        text = "the HPA controller was able to get the target's current scale"
        self._set("AbleToScale", "True", "SucceededGetScale", text)

    def disabled(self) -> None:
        text = "scaling is disabled since the replica count of the target is zero"
        self._set("ScalingActive", "False", "ScalingDisabled", text)

    def no_selector(self) -> None:
        self.warn("SelectorRequired", "selector is required")
        text = "the HPA target's scale is missing a selector"
        self._set("ScalingActive", "False", "InvalidSelector", text)
        self.warn("FailedComputeMetricsReplicas", "selector is required")

    def bad_selector(self, problem: str) -> None:
        text = f"couldn't convert selector into a corresponding internal selector object: {problem}"
        self._refuse("InvalidSelector", text)

    def ambiguous(self, selector: str, rivals: Sequence[str]) -> None:
        listed = " ".join(rivals)
        text = f"pods by selector {selector} are controlled by multiple HPAs: [{listed}]"
        self._refuse("AmbiguousSelector", text)

    def unmeasured(self, failed: Sequence[Unmeasured], metrics: int) -> None:
        first = failed[0]
        text = f"the HPA was unable to compute the replica count: {first.problem}"
        self._set("ScalingActive", "False", first.reason, text)
        counted = f"invalid metrics ({len(failed)} invalid out of {metrics})"
        self.warn("FailedComputeMetricsReplicas", f"{counted}, first error is: {first}")

    def active(self, metric: str) -> None:
        text = f"the HPA was able to successfully calculate a replica count from {metric}"
        self._set("ScalingActive", "True", "ValidMetricFound", text)

    def paced(self, pace: Paced) -> None:
        self._set("AbleToScale", "True", *pace.able)
        self._set("ScalingLimited", "True" if pace.is_limited else "False", *pace.limited)

    def scaled(self, replicas: int, reason: str) -> None:
        text = f"the HPA controller was able to update the target scale to {replicas}"
        self._set("AbleToScale", "True", "SucceededRescale", text)
        self.events.append(("SuccessfulRescale", f"New size: {replicas}; reason: {reason}", False))
        self.status = replace(self.status, last_scale_time=self._now)

    def not_scaled(self, replicas: int, reason: str, problem: str) -> None:
        text = f"New size: {replicas}; reason: {reason}; error: {problem}"
        self.warn("FailedRescale", text)
        text = f"the HPA controller was unable to update the target scale: {problem}"
        self._set("AbleToScale", "False", "FailedUpdateScale", text)

    def numbers(self, current: int, desired: int, metrics: Sequence[JsonObject]) -> None:
        self.status = replace(
            self.status,
            current_replicas=current,
            desired_replicas=desired,
            current_metrics=tuple(metrics) or None,
        )

    def _refuse(self, reason: str, text: str) -> None:
        self.warn(reason, text)
        self._set("ScalingActive", "False", reason, text)
        self.warn("FailedComputeMetricsReplicas", text)

    def _set(self, type_: str, status: str, reason: str, message: str) -> None:
        conditions = list(self.status.conditions or ())
        position = next(
            (number for number, each in enumerate(conditions) if each.type == type_), None
        )
        since: str | None = self._now
        if position is not None and conditions[position].status == status:
            since = conditions[position].last_transition_time
        wanted = AutoscalerCondition(type_, status, since, reason, message)
        if position is None:
            conditions.append(wanted)
        else:
            conditions[position] = wanted
        self.status = replace(self.status, conditions=tuple(conditions))
