"""Tables: taints from conditions, tolerations, disrupted zones."""

import pytest

from kilonova.api.meta import Condition, Metadata
from kilonova.local.controllers.nodelifecycle.conditions import (
    merge_taints,
    select_no_execute_taint,
    select_no_schedule_taints,
)
from kilonova.local.controllers.nodelifecycle.zones import (
    EvictionRateLimiter,
    ZoneState,
    compute_zones,
    is_fully_disrupted,
)
from kilonova.local.objects.core import Node, NodeSpec, NodeStatus, Taint, Toleration
from kilonova.local.objects.tolerations import FOREVER, tolerated_seconds


def node(ready: str = "True", zone: str = "a", *taints: Taint, **conditions: str) -> Node:
    found = tuple(Condition(name, status) for name, status in conditions.items())
    labels = {"topology.kubernetes.io/zone": zone}
    return Node(
        Metadata("n", "u", "1", labels=labels),
        NodeSpec(taints),
        NodeStatus((Condition("Ready", ready), *found)),
    )


@pytest.mark.parametrize(
    ("given", "scheduling", "evicting"),
    [
        (node("True"), set[str](), None),
        (node("False"), {"not-ready"}, "not-ready"),
        (node("Unknown"), {"unreachable"}, "unreachable"),
        (node(DiskPressure="True"), {"disk-pressure"}, None),
        (
            node(MemoryPressure="True", PIDPressure="True"),
            {"memory-pressure", "pid-pressure"},
            None,
        ),
    ],
)
def test_taints_follow_conditions(given: Node, scheduling: set[str], evicting: str | None) -> None:
    prefix = "node.kubernetes.io/"
    assert select_no_schedule_taints(given) == {prefix + each for each in scheduling}
    assert select_no_execute_taint(given) == (prefix + evicting if evicting else None)


def test_taints_of_other_managers_stay() -> None:
    theirs = Taint("gpu", "NoSchedule", "a100")
    stale = Taint("node.kubernetes.io/not-ready", "NoExecute")
    given = node("Unknown", "a", theirs, stale)
    expected = merge_taints(
        given, select_no_schedule_taints(given), select_no_execute_taint(given), "now"
    )
    assert expected is not None
    assert expected[0] is theirs
    assert {(each.key, each.effect) for each in expected[1:]} == {
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    }
    assert merge_taints(node("True", "a", theirs), set(), None, "now") is None


GONE = Taint("gone", "NoExecute")
AWAY = Taint("away", "NoExecute", "x")


@pytest.mark.parametrize(
    ("taints", "tolerations", "seconds"),
    [
        ([GONE], [], 0),
        ([GONE], [Toleration("gone", "Exists")], FOREVER),
        ([GONE], [Toleration("gone", "Exists", toleration_seconds=30)], 30),
        ([GONE], [Toleration("gone", "Exists", toleration_seconds=-5)], 0),
        ([GONE], [Toleration(operator="Exists")], FOREVER),
        ([GONE], [Toleration("gone", "Exists", effect="NoSchedule")], 0),
        ([AWAY], [Toleration("away", value="x")], FOREVER),
        ([AWAY], [Toleration("away", value="y")], 0),
        (
            [GONE, AWAY],
            [
                Toleration("gone", "Exists", toleration_seconds=30),
                Toleration("away", "Exists", toleration_seconds=10),
            ],
            10,
        ),
        ([GONE, AWAY], [Toleration("gone", "Exists")], 0),
    ],
)
def test_how_long_a_pod_tolerates_taints(
    taints: list[Taint], tolerations: list[Toleration], seconds: float
) -> None:
    assert tolerated_seconds(taints, tolerations) == seconds


@pytest.mark.parametrize(
    ("good", "bad", "state", "rate"),
    [
        (3, 0, ZoneState.NORMAL, 0.1),
        (3, 2, ZoneState.NORMAL, 0.1),
        (1, 2, ZoneState.NORMAL, 0.1),
        (2, 3, ZoneState.PARTIAL_DISRUPTION, 0.0),
        (20, 40, ZoneState.PARTIAL_DISRUPTION, 0.01),
        (0, 1, ZoneState.FULL_DISRUPTION, 0.1),
    ],
)
def test_disrupted_zones_are_evicted_slowly(
    good: int, bad: int, state: ZoneState, rate: float
) -> None:
    found = compute_zones([node("True")] * good + [node("Unknown")] * bad)
    (zone,) = found.values()
    assert (zone.state, zone.eviction_rate) == (state, rate)
    assert is_fully_disrupted(found) == (good == 0)


def test_eviction_tokens_are_spent_and_refilled() -> None:
    allowance = EvictionRateLimiter()
    assert allowance.try_accept(0.1, 100.0) == 0
    assert allowance.try_accept(0.1, 101.0) == 9
    assert allowance.try_accept(0.1, 110.0) == 0
    assert allowance.try_accept(0.0, 200.0) is None
