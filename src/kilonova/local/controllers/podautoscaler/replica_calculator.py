"""The number of replicas for a metric. Pure.

The rule is proportional: replicas times (current value / target value). Pods without metrics are
assumed to use nothing when scaling up, and exactly the target when scaling down; pods that are not
ready yet are assumed to use nothing. If these assumptions reverse the direction, the number does
not change.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kilonova.api.pods.resources import is_pod_level_resource
from kilonova.api.quantity import quantity_from_json
from kilonova.api.times import parse_time
from kilonova.local.controllers.podautoscaler.objects import Behavior, to_milli
from kilonova.local.objects.core import Pod
from kilonova.local.objects.pod_resources import effective_requests

_CPU_INITIALIZATION_PERIOD = timedelta(minutes=5)
_INITIAL_READINESS_DELAY = timedelta(seconds=30)
_TOLERANCE = 0.1
_MAX_REPLICAS = 2**31 - 1


class MetricError(Exception):
    """A metric from which no number can be computed, and why."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The usage of a pod, in thousandths, over a window that ended at a time."""

    value: int
    time: datetime
    window: float = 60.0


@dataclass(frozen=True, slots=True)
class ReplicaProposal:
    """The number of replicas, and the current value: in thousandths, and in percent of requests."""

    replicas: int
    value: int
    utilization: int | None = None


@dataclass(frozen=True, slots=True)
class Tolerances:
    """By how much the usage may differ from the target without a change."""

    down: float = _TOLERANCE
    up: float = _TOLERANCE

    @classmethod
    def from_behavior(cls, behavior: Behavior | None) -> "Tolerances":
        if behavior is None:
            return cls()
        down, up = behavior.scale_down.tolerance, behavior.scale_up.tolerance
        return cls(
            _TOLERANCE if down is None else float(quantity_from_json(down)),
            _TOLERANCE if up is None else float(quantity_from_json(up)),
        )

    def is_within(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def propose_by_utilization(
    pods: Sequence[Pod],
    samples: Mapping[str, Sample],
    resource: str,
    container: str,
    target: int,
    current: int,
    tolerances: Tolerances,
    now: datetime,
) -> ReplicaProposal:
    """From the utilization of requests, in percent."""
    groups = _group_measured_pods(pods, samples, resource, now)
    requests = {pod.metadata.name: _sum_requests(pod, container, resource) for pod in pods}
    ratio, utilization, average = _compute_utilization(groups.values, requests, target)

    def ratio_of(values: Mapping[str, int]) -> float:
        return _compute_utilization(values, requests, target)[0]

    least = max(100, target)
    missing = {name: requests[name] * least // 100 for name in groups.missing}
    replicas = _compute_replicas(groups, ratio, missing, ratio_of, current, tolerances)
    return ReplicaProposal(replicas, average, utilization)


def propose_by_average_value(
    pods: Sequence[Pod],
    samples: Mapping[str, Sample],
    resource: str,
    target: int,
    current: int,
    tolerances: Tolerances,
    now: datetime,
) -> ReplicaProposal:
    """From the average over pods, in thousandths."""
    groups = _group_measured_pods(pods, samples, resource, now)
    average = sum(groups.values.values()) // len(groups.values)

    def ratio_of(values: Mapping[str, int]) -> float:
        return (sum(values.values()) // len(values)) / target

    missing = dict.fromkeys(groups.missing, target)
    replicas = _compute_replicas(groups, average / target, missing, ratio_of, current, tolerances)
    return ReplicaProposal(replicas, average)


def propose_by_value(
    pods: Sequence[Pod], value: int, target: int, current: int, tolerances: Tolerances
) -> ReplicaProposal:
    """From one value that all pods share."""
    ratio = value / target
    if current == 0:
        return ReplicaProposal(_round_up(ratio), value)
    if tolerances.is_within(ratio):
        return ReplicaProposal(current, value)
    if not pods:
        reason = "no pods returned by selector while calculating replica count"
        raise MetricError(f"unable to calculate ready pods: {reason}")
    ready = sum(pod.status.phase == "Running" and pod.is_ready for pod in pods)
    return ReplicaProposal(_round_up(ratio * ready), value)


def propose_by_value_per_pod(
    value: int, target: int, current: int, tolerances: Tolerances
) -> ReplicaProposal:
    """From one value that is divided by the number of pods."""
    replicas = current
    if not current or not tolerances.is_within(value / (target * current)):
        replicas = _round_up(value / target)
    return ReplicaProposal(replicas, math.ceil(value / current) if current else value)


@dataclass(frozen=True, slots=True)
class _PodGroups:
    ready: int
    values: dict[str, int]
    unready: set[str]
    missing: set[str]


def _group_measured_pods(
    pods: Sequence[Pod], samples: Mapping[str, Sample], resource: str, now: datetime
) -> _PodGroups:
    """The pods grouped by readiness and metrics; `MetricError` if there are no metrics."""
    if not pods:
        raise MetricError("no pods returned by selector while calculating replica count")
    groups = _group_pods(pods, samples, resource, now)
    if not groups.values:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
    return groups


def _group_pods(
    pods: Sequence[Pod], samples: Mapping[str, Sample], resource: str, now: datetime
) -> _PodGroups:
    values = {name: sample.value for name, sample in samples.items()}
    ready, unready, missing = 0, set[str](), set[str]()
    for pod in pods:
        name = pod.metadata.name
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            values.pop(name, None)
        elif pod.status.phase == "Pending":
            unready.add(name)
        elif name not in samples:
            missing.add(name)
        elif resource == "cpu" and _is_initializing(pod, samples[name], now):
            unready.add(name)
        else:
            ready += 1
    for name in unready:
        values.pop(name, None)
    return _PodGroups(ready, values, unready, missing)


def _is_initializing(pod: Pod, sample: Sample, now: datetime) -> bool:
    """Whether a pod's CPU usage is still that of its startup."""
    condition, started = pod.condition("Ready"), pod.status.start_time
    if condition is None or not started or not condition.last_transition_time:
        return True
    start, since = parse_time(started), parse_time(condition.last_transition_time)
    unready = condition.status == "False"
    if start + _CPU_INITIALIZATION_PERIOD > now:
        return unready or sample.time < since + timedelta(seconds=sample.window)
    return unready and start + _INITIAL_READINESS_DELAY > since


def _compute_replicas(
    groups: _PodGroups,
    ratio: float,
    missing: Mapping[str, int],
    ratio_of: Callable[[Mapping[str, int]], float],
    current: int,
    tolerances: Tolerances,
) -> int:
    up_with_unready = bool(groups.unready) and ratio > 1.0
    if not up_with_unready and not groups.missing:
        return current if tolerances.is_within(ratio) else _round_up(ratio * groups.ready)
    values = dict(groups.values)
    if ratio < 1.0:
        values |= missing
    elif ratio > 1.0:
        values |= dict.fromkeys(groups.missing, 0)
    if up_with_unready:
        values |= dict.fromkeys(groups.unready, 0)
    again = ratio_of(values)
    turned = (ratio < 1.0 < again) or (again < 1.0 < ratio)
    if tolerances.is_within(again) or turned:
        return current
    replicas = _round_up(again * len(values))
    if (again < 1.0 and replicas > current) or (again > 1.0 and replicas < current):
        return current
    return replicas


def _compute_utilization(
    values: Mapping[str, int], requests: Mapping[str, int], target: int
) -> tuple[float, int, int]:
    """Ratio, percent, and average usage."""
    matched = [name for name in values if name in requests]
    used, asked = sum(values[name] for name in matched), sum(requests[name] for name in matched)
    if not asked:
        raise MetricError("no metrics returned matched known pods")
    percent = used * 100 // asked
    return percent / target, percent, used // len(matched)


def _sum_requests(pod: Pod, container: str, resource: str) -> int:
    """The requests of a pod, or of one of its containers, in thousandths."""
    name = pod.metadata.name
    if not container and any(map(is_pod_level_resource, pod.spec.resources.requests)):
        requests = effective_requests(pod.spec, to_milli)
        if resource not in requests:
            raise MetricError(f"missing pod-level request for {resource} in Pod {name}")
        return requests[resource]
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    found = [each for each in (*pod.spec.containers, *sidecars) if container in ("", each.name)]
    if container and not found:
        raise MetricError(f"container {container} not found in Pod {name}")
    for each in found:
        if resource not in each.resources.requests:
            where = f"container {each.name} of Pod {name}"
            raise MetricError(f"missing request for {resource} in {where}")
    return sum(to_milli(each.resources.requests[resource]) for each in found)


def _round_up(replicas: float) -> int:
    return min(_MAX_REPLICAS, math.ceil(replicas))
