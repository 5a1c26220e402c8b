"""How many replicas a metric asks for. Pure.

The rule is a proportion: replicas times (what is used over what should be). Around it stand the
rules for pods of which little is known: one without metrics is taken to use nothing when there
would be more pods, and as much as it should when there would be fewer; one that is not ready yet
uses nothing. Where that turns the direction around, nothing changes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kilonova.api.quantity import from_json
from kilonova.api.times import parse_time
from kilonova.local.controllers.autoscaling.objects import Behavior, milli
from kilonova.local.controllers.objects import Pod

_START = timedelta(minutes=5)
_FIRST_READINESS = timedelta(seconds=30)
_TOLERANCE = 0.1
_MOST = 2**31 - 1


class NoProposal(Exception):
    """A metric of which nothing can be concluded, and why."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a pod used, in thousandths, over a window that ended at a time."""

    value: int
    time: datetime
    window: float = 60.0


@dataclass(frozen=True, slots=True)
class Proposal:
    """How many replicas, and what there is now: in thousandths, and in percent of requests."""

    replicas: int
    value: int
    utilization: int | None = None


@dataclass(frozen=True, slots=True)
class Tolerances:
    """By how much use may be off without a change."""

    down: float = _TOLERANCE
    up: float = _TOLERANCE

    @classmethod
    def of(cls, behavior: Behavior | None) -> "Tolerances":
        if behavior is None:
            return cls()
        down, up = behavior.scale_down.tolerance, behavior.scale_up.tolerance
        return cls(
            _TOLERANCE if down is None else float(from_json(down)),
            _TOLERANCE if up is None else float(from_json(up)),
        )

    def allow(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def by_utilization(
    pods: Sequence[Pod],
    samples: Mapping[str, Sample],
    resource: str,
    container: str,
    target: int,
    current: int,
    tolerances: Tolerances,
    now: datetime,
) -> Proposal:
    """From what pods use of what they ask for, in percent."""
    groups = _measured(pods, samples, resource, now)
    requests = {pod.metadata.name: _request(pod, container, resource) for pod in pods}
    ratio, utilization, average = _utilization(groups.values, requests, target)

    def ratio_of(values: Mapping[str, int]) -> float:
        return _utilization(values, requests, target)[0]

    least = max(100, target)
    missing = {name: requests[name] * least // 100 for name in groups.missing}
    replicas = _replicas(groups, ratio, missing, ratio_of, current, tolerances)
    return Proposal(replicas, average, utilization)


def by_average(
    pods: Sequence[Pod],
    samples: Mapping[str, Sample],
    resource: str,
    target: int,
    current: int,
    tolerances: Tolerances,
    now: datetime,
) -> Proposal:
    """From the average over pods, in thousandths."""
    groups = _measured(pods, samples, resource, now)
    average = sum(groups.values.values()) // len(groups.values)

    def ratio_of(values: Mapping[str, int]) -> float:
        return (sum(values.values()) // len(values)) / target

    missing = dict.fromkeys(groups.missing, target)
    replicas = _replicas(groups, average / target, missing, ratio_of, current, tolerances)
    return Proposal(replicas, average)


def by_value(
    pods: Sequence[Pod], value: int, target: int, current: int, tolerances: Tolerances
) -> Proposal:
    """From one number that all pods share."""
    ratio = value / target
    if current == 0:
        return Proposal(_rounded(ratio), value)
    if tolerances.allow(ratio):
        return Proposal(current, value)
    if not pods:
        reason = "no pods returned by selector while calculating replica count"
        raise NoProposal(f"unable to calculate ready pods: {reason}")
    ready = sum(pod.status.phase == "Running" and pod.ready for pod in pods)
    return Proposal(_rounded(ratio * ready), value)


def by_share(value: int, target: int, current: int, tolerances: Tolerances) -> Proposal:
    """From one number that is divided among the pods."""
    replicas = current
    if not current or not tolerances.allow(value / (target * current)):
        replicas = _rounded(value / target)
    return Proposal(replicas, math.ceil(value / current) if current else value)


@dataclass(frozen=True, slots=True)
class _Groups:
    ready: int
    values: dict[str, int]
    unready: set[str]
    missing: set[str]


def _measured(
    pods: Sequence[Pod], samples: Mapping[str, Sample], resource: str, now: datetime
) -> _Groups:
    """The pods by what is known of them; `NoProposal` where nothing is."""
    if not pods:
        raise NoProposal("no pods returned by selector while calculating replica count")
    groups = _grouped(pods, samples, resource, now)
    if not groups.values:
        raise NoProposal("did not receive metrics for targeted pods (pods might be unready)")
    return groups


def _grouped(
    pods: Sequence[Pod], samples: Mapping[str, Sample], resource: str, now: datetime
) -> _Groups:
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
        elif resource == "cpu" and _is_starting(pod, samples[name], now):
            unready.add(name)
        else:
            ready += 1
    for name in unready:
        values.pop(name, None)
    return _Groups(ready, values, unready, missing)


def _is_starting(pod: Pod, sample: Sample, now: datetime) -> bool:
    """Whether the CPU that a pod uses is that of its start, and says nothing of its work."""
    condition, started = pod.condition("Ready"), pod.status.start_time
    if condition is None or not started or not condition.last_transition_time:
        return True
    start, since = parse_time(started), parse_time(condition.last_transition_time)
    unready = condition.status == "False"
    if start + _START > now:
        return unready or sample.time < since + timedelta(seconds=sample.window)
    return unready and start + _FIRST_READINESS > since


def _replicas(
    groups: _Groups,
    ratio: float,
    missing: Mapping[str, int],
    ratio_of: Callable[[Mapping[str, int]], float],
    current: int,
    tolerances: Tolerances,
) -> int:
    up_with_unready = bool(groups.unready) and ratio > 1.0
    if not up_with_unready and not groups.missing:
        return current if tolerances.allow(ratio) else _rounded(ratio * groups.ready)
    values = dict(groups.values)
    if ratio < 1.0:
        values |= missing
    elif ratio > 1.0:
        values |= dict.fromkeys(groups.missing, 0)
    if up_with_unready:
        values |= dict.fromkeys(groups.unready, 0)
    again = ratio_of(values)
    turned = (ratio < 1.0 < again) or (again < 1.0 < ratio)
    if tolerances.allow(again) or turned:
        return current
    replicas = _rounded(again * len(values))
    if (again < 1.0 and replicas > current) or (again > 1.0 and replicas < current):
        return current
    return replicas


def _utilization(
    values: Mapping[str, int], requests: Mapping[str, int], target: int
) -> tuple[float, int, int]:
    """Ratio, percent, and average use."""
    known = [name for name in values if name in requests]
    used, asked = sum(values[name] for name in known), sum(requests[name] for name in known)
    if not asked:
        raise NoProposal("no metrics returned matched known pods")
    percent = used * 100 // asked
    return percent / target, percent, used // len(known)


def _request(pod: Pod, container: str, resource: str) -> int:
    """What a pod, or one of its containers, asks for, in thousandths."""
    name = pod.metadata.name
    whole = pod.spec.resources.requests
    if whole and not container:
        if resource not in whole:
            raise NoProposal(f"missing pod-level request for {resource} in Pod {name}")
        overhead = pod.spec.overhead.get(resource)
        return milli(whole[resource]) + (milli(overhead) if overhead is not None else 0)
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    found = [each for each in (*pod.spec.containers, *sidecars) if container in ("", each.name)]
    if container and not found:
        raise NoProposal(f"container {container} not found in Pod {name}")
    for each in found:
        if resource not in each.resources.requests:
            where = f"container {each.name} of Pod {name}"
            raise NoProposal(f"missing request for {resource} in {where}")
    return sum(milli(each.resources.requests[resource]) for each in found)


def _rounded(replicas: float) -> int:
    return min(_MOST, math.ceil(replicas))
