"""How fast an autoscaler goes: its bounds, rates and windows."""

from typing import Any

import pytest

from kilonova.local.controllers.autoscaling.objects import AutoscalerSpec, Behavior, Policy, Rules
from kilonova.local.controllers.autoscaling.pace import History, Moment, paced

NOW = 10_000.0


def ago(*recommended: tuple[float, int]) -> History:
    return History(tuple(Moment(NOW - seconds, replicas) for seconds, replicas in recommended))


@pytest.mark.parametrize(
    ("current", "wanted", "history", "replicas", "able", "limited"),
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
    current: int, wanted: int, history: History, replicas: int, able: str, limited: str
) -> None:
    spec = AutoscalerSpec(min_replicas=2, max_replicas=10)
    found = paced(spec, current, wanted, history, NOW)
    assert (found.replicas, found.able[0], found.limited[0]) == (replicas, able, limited)
    assert found.is_limited is (limited != "DesiredWithinRange")
    assert found.history.recommended[-1] == Moment(NOW, wanted)


PODS = Policy("Pods", 4, 60)
PERCENT = Policy("Percent", 50, 60)


def rules(*policies: Policy, select: str = "Max", window: int = 0) -> Rules:
    return Rules(window, select, policies)


@pytest.mark.parametrize(
    ("behavior", "current", "wanted", "history", "replicas", "limited"),
    [
        (Behavior(scale_up=rules(PODS)), 10, 30, History(), 14, "ScaleUpLimit"),
        (Behavior(scale_up=rules(PODS, PERCENT)), 10, 30, History(), 15, "ScaleUpLimit"),
        (
            Behavior(scale_up=rules(PODS, PERCENT, select="Min")),
            10,
            30,
            History(),
            14,
            "ScaleUpLimit",
        ),
        (
            Behavior(scale_up=rules(PODS, select="Disabled")),
            10,
            30,
            History(),
            10,
            "ScaleUpLimit",
        ),
        (
            Behavior(scale_up=rules(PODS)),
            12,
            30,
            History(ups=(Moment(NOW - 30, 3), Moment(NOW - 90, 8))),
            13,
            "ScaleUpLimit",
        ),
        (Behavior(scale_down=rules(PODS)), 10, 1, History(), 6, "ScaleDownLimit"),
        (Behavior(scale_down=rules(PODS, PERCENT)), 10, 1, History(), 5, "ScaleDownLimit"),
        (
            Behavior(scale_down=rules(PODS)),
            8,
            1,
            History(downs=(Moment(NOW - 30, 4),)),
            8,
            "ScaleDownLimit",
        ),
        (Behavior(scale_down=rules(PODS)), 5, 1, History(), 2, "TooFewReplicas"),
        (Behavior(scale_up=rules(PODS)), 39, 60, History(), 40, "TooManyReplicas"),
        (Behavior(scale_up=rules(PODS)), 10, 12, History(), 12, "DesiredWithinRange"),
    ],
)
def test_with_a_behavior(
    behavior: Behavior,
    current: int,
    wanted: int,
    history: History,
    replicas: int,
    limited: str,
) -> None:
    spec = AutoscalerSpec(min_replicas=2, max_replicas=40, behavior=behavior)
    found = paced(spec, current, wanted, history, NOW)
    assert (found.replicas, found.limited[0]) == (replicas, limited)


@pytest.mark.parametrize(
    ("up", "down", "history", "wanted", "replicas", "able"),
    [
        (60, 0, ago((30, 6)), 9, 6, "ScaleUpStabilized"),
        (60, 0, ago((90, 6)), 9, 9, "ReadyForNewScale"),
        (0, 60, ago((30, 4)), 3, 4, "ScaleDownStabilized"),
        (60, 60, ago((30, 4), (20, 8)), 9, 5, "ScaleUpStabilized"),
    ],
)
def test_windows_take_the_calmest_recommendation(
    up: int, down: int, history: History, wanted: int, replicas: int, able: str
) -> None:
    wide: Any = (Policy("Percent", 1000, 60),)
    behavior = Behavior(Rules(up, "Max", wide), Rules(down, "Max", wide))
    spec = AutoscalerSpec(min_replicas=1, max_replicas=40, behavior=behavior)
    found = paced(spec, 5, wanted, history, NOW)
    assert (found.replicas, found.able[0]) == (replicas, able)


def test_changes_are_remembered_as_long_as_a_policy_asks_for_them() -> None:
    behavior = Behavior(rules(PODS), rules(PODS))
    before = History(ups=(Moment(NOW - 61, 5), Moment(NOW - 59, 2)))
    after = before.scaled(3, 7, behavior, NOW)
    assert after.ups == (Moment(NOW - 59, 2), Moment(NOW, 4))
    assert after.scaled(7, 6, behavior, NOW).downs == (Moment(NOW, 1),)
    assert before.scaled(3, 7, None, NOW) is before
