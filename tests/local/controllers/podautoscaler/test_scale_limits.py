"""The limits of an autoscaler: bounds, rates and stabilization windows."""

from typing import Any

import pytest

from kilonova.local.controllers.podautoscaler.objects import (
    AutoscalerSpec,
    Behavior,
    ScalingPolicy,
    ScalingRules,
)
from kilonova.local.controllers.podautoscaler.scale_limits import (
    ScalingHistory,
    TimedReplicas,
    limit_scale,
)

NOW = 10_000.0


def ago(*recommended: tuple[float, int]) -> ScalingHistory:
    return ScalingHistory(
        tuple(TimedReplicas(NOW - seconds, replicas) for seconds, replicas in recommended)
    )


@pytest.mark.parametrize(
    ("current", "expected", "history", "replicas", "able", "limited"),
    [
        (3, 5, ago(), 5, "ReadyForNewScale", "DesiredWithinRange"),
        (3, 20, ago(), 6, "ReadyForNewScale", "ScaleUpLimit"),
        (1, 20, ago(), 4, "ReadyForNewScale", "ScaleUpLimit"),
        (8, 20, ago(), 10, "ReadyForNewScale", "TooManyReplicas"),
        (3, 1, ago(), 2, "ReadyForNewScale", "TooFewReplicas"),
        (8, 3, ago((100, 8)), 8, "ScaleDownStabilized", "DesiredWithinRange"),
        (8, 3, ago((100, 5), (200, 4)), 5, "ScaleDownStabilized", "DesiredWithinRange"),
        (8, 3, ago((301, 8)), 3, "ReadyForNewScale", "DesiredWithinRange"),
        (3, 5, ago((10, 2)), 5, "ReadyForNewScale", "DesiredWithinRange"),
    ],
)
def test_without_a_behavior(
    current: int, expected: int, history: ScalingHistory, replicas: int, able: str, limited: str
) -> None:
    spec = AutoscalerSpec(min_replicas=2, max_replicas=10)
    found = limit_scale(spec, current, expected, history, NOW)
    assert (found.replicas, found.able_to_scale[0], found.scaling_limited[0]) == (
        replicas,
        able,
        limited,
    )
    assert found.is_limited is (limited != "DesiredWithinRange")
    assert found.history.recommendations[-1] == TimedReplicas(NOW, expected)


PODS = ScalingPolicy("Pods", 4, 60)
PERCENT = ScalingPolicy("Percent", 50, 60)


def rules(*policies: ScalingPolicy, select: str = "Max", window: int = 0) -> ScalingRules:
    return ScalingRules(window, select, policies)


@pytest.mark.parametrize(
    ("behavior", "current", "expected", "history", "replicas", "limited"),
    [
        (Behavior(scale_up=rules(PODS)), 10, 30, ScalingHistory(), 14, "ScaleUpLimit"),
        (Behavior(scale_up=rules(PODS, PERCENT)), 10, 30, ScalingHistory(), 15, "ScaleUpLimit"),
        (
            Behavior(scale_up=rules(PODS, PERCENT, select="Min")),
            10,
            30,
            ScalingHistory(),
            14,
            "ScaleUpLimit",
        ),
        (
            Behavior(scale_up=rules(PODS, select="Disabled")),
            10,
            30,
            ScalingHistory(),
            10,
            "ScaleUpLimit",
        ),
        (
            Behavior(scale_up=rules(PODS)),
            12,
            30,
            ScalingHistory(scale_ups=(TimedReplicas(NOW - 30, 3), TimedReplicas(NOW - 90, 8))),
            13,
            "ScaleUpLimit",
        ),
        (Behavior(scale_down=rules(PODS)), 10, 1, ScalingHistory(), 6, "ScaleDownLimit"),
        (Behavior(scale_down=rules(PODS, PERCENT)), 10, 1, ScalingHistory(), 5, "ScaleDownLimit"),
        (
            Behavior(scale_down=rules(PODS)),
            8,
            1,
            ScalingHistory(scale_downs=(TimedReplicas(NOW - 30, 4),)),
            8,
            "ScaleDownLimit",
        ),
        (Behavior(scale_down=rules(PODS)), 5, 1, ScalingHistory(), 2, "TooFewReplicas"),
        (Behavior(scale_up=rules(PODS)), 39, 60, ScalingHistory(), 40, "TooManyReplicas"),
        (Behavior(scale_up=rules(PODS)), 10, 12, ScalingHistory(), 12, "DesiredWithinRange"),
    ],
)
def test_with_a_behavior(
    behavior: Behavior,
    current: int,
    expected: int,
    history: ScalingHistory,
    replicas: int,
    limited: str,
) -> None:
    spec = AutoscalerSpec(min_replicas=2, max_replicas=40, behavior=behavior)
    found = limit_scale(spec, current, expected, history, NOW)
    assert (found.replicas, found.scaling_limited[0]) == (replicas, limited)


@pytest.mark.parametrize(
    ("up", "down", "history", "expected", "replicas", "able"),
    [
        (60, 0, ago((30, 6)), 9, 6, "ScaleUpStabilized"),
        (60, 0, ago((90, 6)), 9, 9, "ReadyForNewScale"),
        (0, 60, ago((30, 4)), 3, 4, "ScaleDownStabilized"),
        (60, 60, ago((30, 4), (20, 8)), 9, 5, "ScaleUpStabilized"),
    ],
)
def test_windows_take_the_most_conservative_recommendation(
    up: int, down: int, history: ScalingHistory, expected: int, replicas: int, able: str
) -> None:
    wide: Any = (ScalingPolicy("Percent", 1000, 60),)
    behavior = Behavior(ScalingRules(up, "Max", wide), ScalingRules(down, "Max", wide))
    spec = AutoscalerSpec(min_replicas=1, max_replicas=40, behavior=behavior)
    found = limit_scale(spec, 5, expected, history, NOW)
    assert (found.replicas, found.able_to_scale[0]) == (replicas, able)


def test_changes_are_remembered_for_the_longest_policy_period() -> None:
    behavior = Behavior(rules(PODS), rules(PODS))
    before = ScalingHistory(scale_ups=(TimedReplicas(NOW - 61, 5), TimedReplicas(NOW - 59, 2)))
    after = before.record_scaling(3, 7, behavior, NOW)
    assert after.scale_ups == (TimedReplicas(NOW - 59, 2), TimedReplicas(NOW, 4))
    assert after.record_scaling(7, 6, behavior, NOW).scale_downs == (TimedReplicas(NOW, 1),)
    assert before.record_scaling(3, 7, None, NOW) is before
