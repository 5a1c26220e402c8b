"""How many replicas metrics ask for: values in, a number out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import rfc3339
from kilonova.local.controllers.autoscaling.objects import Behavior, Rules
from kilonova.local.controllers.autoscaling.proposals import (
    NoProposal,
    Sample,
    Tolerances,
    by_average,
    by_share,
    by_utilization,
    by_value,
)
from kilonova.local.controllers.objects import Container, Pod, PodSpec, PodStatus, Resources

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
EXACT = Tolerances()


def pod(
    name: str,
    *,
    phase: str = "Running",
    ready: bool = True,
    age: float = 3600,
    changed: float = 3500,
    going: bool = False,
    **requests: str,
) -> Pod:
    condition = Condition(
        "Ready",
        "True" if ready else "False",
        last_transition_time=rfc3339(NOW - timedelta(seconds=changed)),
    )
    container = Container("main", resources=Resources(requests={**(requests or {"cpu": "1"})}))
    return Pod(
        Metadata(name, name, "1", deletion_timestamp=rfc3339(NOW) if going else None),
        PodSpec(containers=(container,)),
        PodStatus(
            phase,
            conditions=(condition,),
            start_time=rfc3339(NOW - timedelta(seconds=age)),
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
        # No metrics of one: used nothing when going up, all that it asked for when going down.
        ([A, B], [1500, None], 50, 2, 3, 150),
        ([A, B], [1100, None], 100, 2, 2, 110),
        ([A, B, C], [100, 100, None], 50, 3, 3, 10),
        ([A, B, C, D], [100, 100, 100, None], 80, 4, 2, 10),
        # Not ready yet: uses nothing when going up, is left out when going down.
        ([A, B, pod("c", phase="Pending")], [1000, 1000], 50, 3, 4, 100),
        ([A, B, pod("c", ready=False, **STARTING)], [1000, 1000, 5000], 50, 3, 4, 100),
        ([A, B, pod("c", ready=False, age=3600, changed=10)], [200, 200, 200], 50, 3, 2, 20),
        ([A, B, pod("c", phase="Pending")], [100, 100], 50, 3, 1, 10),
        # On its way out, or failed: not there.
        ([A, B, pod("c", going=True)], [1000, 1000, 9000], 50, 3, 4, 100),
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
    found = by_utilization(pods, samples(*used), "cpu", "", target, current, EXACT, NOW)
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
def test_nothing_can_be_concluded(pods: list[Pod], used: list[int], problem: str) -> None:
    with pytest.raises(NoProposal) as error:
        by_utilization(pods, samples(*used), "cpu", "", 50, 1, EXACT, NOW)
    assert str(error.value) == problem


def test_a_container_that_is_not_there_is_named() -> None:
    with pytest.raises(NoProposal, match="container side not found in Pod a"):
        by_utilization([A], samples(100), "cpu", "side", 50, 1, EXACT, NOW)


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
    found = by_average([A, B], samples(*used), "", target, current, EXACT, NOW)
    assert (found.replicas, found.value) == (replicas, average)


@pytest.mark.parametrize(
    ("value", "target", "current", "replicas"),
    [(30, 10, 2, 6), (10, 10, 2, 2), (5, 10, 2, 1), (25, 10, 0, 3), (0, 10, 0, 0)],
)
def test_by_one_value_that_all_share(value: int, target: int, current: int, replicas: int) -> None:
    assert by_value([A, B], value, target, current, EXACT).replicas == replicas


@pytest.mark.parametrize(
    ("value", "target", "current", "replicas", "each"),
    [(40, 10, 2, 4, 20), (21, 10, 2, 2, 11), (5, 10, 2, 1, 3)],
)
def test_by_a_share_of_one_value(
    value: int, target: int, current: int, replicas: int, each: int
) -> None:
    found = by_share(value, target, current, EXACT)
    assert (found.replicas, found.value) == (replicas, each)


@pytest.mark.parametrize(
    ("behavior", "ratio", "allowed"),
    [
        (None, 1.1, True),
        (None, 1.11, False),
        (None, 0.89, False),
        (Behavior(scale_up=Rules(tolerance="0")), 1.01, False),
        (Behavior(scale_up=Rules(tolerance="50m")), 0.91, True),
        (Behavior(scale_down=Rules(tolerance="0.5")), 0.5, True),
    ],
)
def test_by_how_much_use_may_be_off(behavior: Any, ratio: float, allowed: bool) -> None:
    assert Tolerances.of(behavior).allow(ratio) is allowed
