"""What is started and stopped, and in which order."""

from typing import Any

import pytest

from kilonova.local.nodes.process.kubelet.restarts import restarts_after
from kilonova.local.nodes.process.kubelet.runs import History
from kilonova.local.nodes.process.kubelet.sequence import HEALTHY, Health, Plan, plan, turns
from tests.local.process.kubelet.kubelet_pods import NEVER_RAN, ended, pod, running, sidecar

STARTING = Health(startup=None, ready=False)
DEAD = Health(alive=False)


def planned(subject: Any, histories: dict[str, History], **health: Health) -> Plan:
    known = {each.name: histories.get(each.name, NEVER_RAN) for each in subject.all_containers}
    healths = {each.name: health.get(each.name, HEALTHY) for each in subject.all_containers}
    return plan(subject, known, healths)


def started(subject: Any, histories: dict[str, History], **health: Health) -> list[str]:
    return list(planned(subject, histories, **health).start)


def test_containers_start_together() -> None:
    assert started(pod("a", "b"), {}) == ["a", "b"]


@pytest.mark.parametrize(
    ("histories", "expected"),
    [
        ({}, ["i"]),
        ({"i": running("i")}, []),
        ({"i": ended("i", 1)}, ["i"]),
        ({"i": ended("i")}, ["j"]),
        ({"i": ended("i"), "j": running("j")}, []),
        ({"i": ended("i"), "j": ended("j")}, ["a"]),
        ({"i": ended("i"), "j": ended("j"), "a": running("a")}, []),
        ({"i": ended("i"), "j": ended("j"), "a": ended("a", 1)}, ["a"]),
    ],
)
def test_init_containers_run_one_after_the_other(
    histories: dict[str, History], expected: list[str]
) -> None:
    assert started(pod("a", init=("i", "j")), histories) == expected


@pytest.mark.parametrize(
    ("histories", "health", "expected"),
    [
        ({}, HEALTHY, ["s"]),
        ({"s": running("s")}, STARTING, []),
        ({"s": running("s")}, HEALTHY, ["i"]),
        ({"s": ended("s", 1)}, HEALTHY, ["s"]),
        ({"s": ended("s"), "i": running("i")}, HEALTHY, ["s"]),
        ({"s": running("s"), "i": ended("i")}, HEALTHY, ["a"]),
        ({"s": ended("s"), "i": ended("i"), "a": running("a")}, HEALTHY, ["s"]),
    ],
)
def test_sidecars_start_in_turn_and_are_kept(
    histories: dict[str, History], health: Health, expected: list[str]
) -> None:
    subject = pod("a", init=(sidecar("s", startupProbe={"exec": {}}), "i"))
    assert started(subject, histories, s=health) == expected


def test_a_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    subject = pod("a", init=("i",), restartPolicy="Never")
    assert planned(subject, {"i": ended("i", 1)}) == Plan(over=True)


@pytest.mark.parametrize(
    ("policy", "code", "over"),
    [
        ("Never", 0, True),
        ("Never", 1, True),
        ("OnFailure", 0, True),
        ("OnFailure", 1, False),
        ("Always", 0, False),
    ],
)
def test_a_pod_is_over_when_nothing_will_run_again(policy: str, code: int, over: bool) -> None:
    subject = pod("a", init=(sidecar("s"),), restartPolicy=policy)
    found = planned(subject, {"s": running("s"), "a": ended("a", code)})
    assert found.over is over
    assert list(found.start) == ([] if over else ["a"])


def test_a_container_that_is_not_alive_is_stopped() -> None:
    subject = pod("a", "b")
    found = planned(subject, {"a": running("a"), "b": running("b")}, a=DEAD)
    assert [stop.message for stop in found.stop] == [
        "Container a failed liveness probe, will be restarted"
    ]
    assert not found.over


def test_a_dead_container_is_not_restarted_where_the_pod_never_restarts() -> None:
    found = planned(pod("a", restartPolicy="Never"), {"a": running("a")}, a=DEAD)
    assert [stop.message for stop in found.stop] == ["Container a failed liveness probe"]
    assert found.over


@pytest.mark.parametrize(
    ("own", "rules", "code", "again"),
    [
        (None, [], 0, True),
        ("Never", [], 1, False),
        ("OnFailure", [], 0, False),
        ("OnFailure", [], 3, True),
        (
            "Never",
            [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
            42,
            True,
        ),
        (
            "Never",
            [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
            1,
            False,
        ),
        (
            "Never",
            [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [1]}}],
            2,
            True,
        ),
    ],
)
def test_a_container_may_have_a_policy_of_its_own(
    own: str | None, rules: list[Any], code: int, again: bool
) -> None:
    fields = {"name": "a", "restartPolicyRules": rules} | ({"restartPolicy": own} if own else {})
    subject = pod(fields)
    assert restarts_after(subject, subject.container("a"), code) is again


@pytest.mark.parametrize(
    ("histories", "expected"),
    [
        ({"a": running("a")}, ["e"]),
        ({"a": running("a"), "e": ended("e", 1)}, []),
        ({}, ["i", "e"]),
    ],
)
def test_ephemeral_containers_run_once(histories: dict[str, History], expected: list[str]) -> None:
    init = () if histories else ("i",)
    subject = pod("a", init=init, ephemeralContainers=[{"name": "e"}])
    assert started(subject, histories) == expected


def test_sidecars_end_last_in_reverse_order() -> None:
    subject = pod("a", "b", init=(sidecar("s"), "i", sidecar("t")))
    assert turns(subject, ["s", "t", "a"]) == {
        "a": frozenset(),
        "t": frozenset({"a"}),
        "s": frozenset({"a", "t"}),
    }
