"""Replicas for metrics: values in, a number out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import format_rfc3339
from kilonova.local.controllers.podautoscaler.objects import Behavior, ScalingRules
from kilonova.local.controllers.podautoscaler.replica_calculator import (
    MetricError,
    Sample,
    Tolerances,
    propose_by_average_value,
    propose_by_utilization,
    propose_by_value,
    propose_by_value_per_pod,
)
from kilonova.local.objects.core import (
    Container,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
EXACT = Tolerances()


def pod(
    name: str,
    *,
    phase: str = "Running",
    ready: bool = True,
    age: float = 3600,
    changed: float = 3500,
    terminating: bool = False,
    **requests: str,
) -> Pod:
    condition = Condition(
        "Ready",
        "True" if ready else "False",
        last_transition_time=format_rfc3339(NOW - timedelta(seconds=changed)),
    )
    container = Container(
        "main", resources=ResourceRequirements(requests={**(requests or {"cpu": "1"})})
    )
    return Pod(
        Metadata(name, name, "1", deletion_timestamp=format_rfc3339(NOW) if terminating else None),
        PodSpec(containers=(container,)),
        PodStatus(
            phase,
            conditions=(condition,),
            start_time=format_rfc3339(NOW - timedelta(seconds=age)),
        ),
    )


def samples(*values: int | None) -> dict[str, Sample]:
    named = zip("abcdefgh", values, strict=False)
    return {name: Sample(value, NOW, 30) for name, value in named if value is not None}


A, B, C, D = (pod(name) for name in "abcd")
STARTING: Any = {"age": 60, "changed": 5}


@pytest.mark.parametrize(
    ("pods", "used", "target", "current", "replicas", "utilization"),
    [
        ([A, B], [900, 900], 50, 2, 4, 90),
        ([A, B], [300, 500], 100, 2, 1, 40),
        ([A, B, C], [1050, 1050, 1050], 100, 3, 3, 105),
        # Without metrics: assumed to use nothing when scaling up, its request when scaling down.
        ([A, B], [1500, None], 50, 2, 3, 150),
        ([A, B], [1100, None], 100, 2, 2, 110),
        ([A, B, C], [100, 100, None], 50, 3, 3, 10),
        ([A, B, C, D], [100, 100, 100, None], 80, 4, 2, 10),
        # Not ready yet: assumed to use nothing when scaling up, ignored when scaling down.
        ([A, B, pod("c", phase="Pending")], [1000, 1000], 50, 3, 4, 100),
        ([A, B, pod("c", ready=False, **STARTING)], [1000, 1000, 5000], 50, 3, 4, 100),
        ([A, B, pod("c", ready=False, age=3600, changed=10)], [200, 200, 200], 50, 3, 2, 20),
        ([A, B, pod("c", phase="Pending")], [100, 100], 50, 3, 1, 10),
        # Terminating, or failed: ignored.
        ([A, B, pod("c", terminating=True)], [1000, 1000, 9000], 50, 3, 4, 100),
        ([A, B, pod("c", phase="Failed")], [1000, 1000, 9000], 50, 3, 4, 100),
    ],
)
def test_by_utilization(
    pods: list[Pod],
    used: list[int | None],
    target: int,
    current: int,
    replicas: int,
    utilization: int,
) -> None:
    found = propose_by_utilization(pods, samples(*used), "cpu", "", target, current, EXACT, NOW)
    assert (found.replicas, found.utilization) == (replicas, utilization)


@pytest.mark.parametrize(
    ("pods", "used", "problem"),
    [
        ([], [], "no pods returned by selector while calculating replica count"),
        ([A], [], "did not receive metrics for targeted pods (pods might be unready)"),
        (
            [pod("a", memory="1Gi")],
            [100],
            "missing request for cpu in container main of Pod a",
        ),
    ],
)
def test_missing_metrics_raise_an_error(pods: list[Pod], used: list[int], problem: str) -> None:
    with pytest.raises(MetricError) as error:
        propose_by_utilization(pods, samples(*used), "cpu", "", 50, 1, EXACT, NOW)
    assert str(error.value) == problem


@pytest.mark.parametrize(
    ("resource", "container", "utilization"),
    [("cpu", "", 40), ("cpu", "main", 200), ("memory", "", 100)],
)
def test_pod_level_requests_replace_those_of_containers(
    resource: str, container: str, utilization: int
) -> None:
    main, pods = ResourceRequirements({"cpu": "1", "memory": "2"}), [pod("a")]
    pods[0].spec = PodSpec(
        containers=(Container("main", resources=main),),
        resources=ResourceRequirements({"cpu": "4"}),
        overhead={"cpu": "1"},
    )
    found = propose_by_utilization(pods, samples(2000), resource, container, 50, 1, EXACT, NOW)
    assert found.utilization == utilization


def test_missing_container_is_named() -> None:
    with pytest.raises(MetricError, match="container side not found in Pod a"):
        propose_by_utilization([A], samples(100), "cpu", "side", 50, 1, EXACT, NOW)


@pytest.mark.parametrize(
    ("used", "target", "current", "replicas", "average"),
    [
        ([20000, 20000], 10000, 2, 4, 20000),
        ([10500, 10500], 10000, 2, 2, 10500),
        ([20000, None], 10000, 2, 2, 20000),
        ([1000, None], 10000, 2, 2, 1000),
        ([1000, 3000], 10000, 2, 1, 2000),
    ],
)
def test_by_average(
    used: list[int | None], target: int, current: int, replicas: int, average: int
) -> None:
    found = propose_by_average_value([A, B], samples(*used), "", target, current, EXACT, NOW)
    assert (found.replicas, found.value) == (replicas, average)


@pytest.mark.parametrize(
    ("value", "target", "current", "replicas"),
    [(30, 10, 2, 6), (10, 10, 2, 2), (5, 10, 2, 1), (25, 10, 0, 3), (0, 10, 0, 0)],
)
def test_by_one_value_for_all_pods(value: int, target: int, current: int, replicas: int) -> None:
    assert propose_by_value([A, B], value, target, current, EXACT).replicas == replicas


@pytest.mark.parametrize(
    ("value", "target", "current", "replicas", "each"),
    [(40, 10, 2, 4, 20), (21, 10, 2, 2, 11), (5, 10, 2, 1, 3)],
)
def test_by_average_of_one_value(
    value: int, target: int, current: int, replicas: int, each: int
) -> None:
    found = propose_by_value_per_pod(value, target, current, EXACT)
    assert (found.replicas, found.value) == (replicas, each)


@pytest.mark.parametrize(
    ("behavior", "ratio", "allowed"),
    [
        (None, 1.1, True),
        (None, 1.11, False),
        (None, 0.89, False),
        (Behavior(scale_up=ScalingRules(tolerance="0")), 1.01, False),
        (Behavior(scale_up=ScalingRules(tolerance="50m")), 0.91, True),
        (Behavior(scale_down=ScalingRules(tolerance="0.5")), 0.5, True),
    ],
)
def test_tolerance_around_the_target(behavior: Any, ratio: float, allowed: bool) -> None:
    assert Tolerances.from_behavior(behavior).is_within(ratio) is allowed
