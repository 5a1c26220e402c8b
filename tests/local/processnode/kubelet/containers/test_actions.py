"""Which containers are started and stopped, and in which order."""

from typing import Any

import pytest

from kilonova.local.processnode.kubelet.containers.actions import (
    DEFAULT_HEALTH,
    PodActions,
    ProbeHealth,
    compute_pod_actions,
    compute_termination_order,
)
from kilonova.local.processnode.kubelet.containers.restart_policy import should_restart
from kilonova.local.processnode.kubelet.containers.runs import RunHistory
from tests.local.processnode.kubelet.kubelet_pods import NEVER_RAN, ended, pod, running, sidecar

STARTING = ProbeHealth(has_started=None, is_ready=False)
DEAD = ProbeHealth(is_alive=False)


def plan_actions(
    subject: Any, histories: dict[str, RunHistory], **health: ProbeHealth
) -> PodActions:
    known = {each.name: histories.get(each.name, NEVER_RAN) for each in subject.all_containers}
    healths = {each.name: health.get(each.name, DEFAULT_HEALTH) for each in subject.all_containers}
    return compute_pod_actions(subject, known, healths)


def started(subject: Any, histories: dict[str, RunHistory], **health: ProbeHealth) -> list[str]:
    return list(plan_actions(subject, histories, **health).start)


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
    histories: dict[str, RunHistory], expected: list[str]
) -> None:
    assert started(pod("a", init=("i", "j")), histories) == expected


@pytest.mark.parametrize(
    ("histories", "health", "expected"),
    [
        ({}, DEFAULT_HEALTH, ["s"]),
        ({"s": running("s")}, STARTING, []),
        ({"s": running("s")}, DEFAULT_HEALTH, ["i"]),
        ({"s": ended("s", 1)}, DEFAULT_HEALTH, ["s"]),
        ({"s": ended("s"), "i": running("i")}, DEFAULT_HEALTH, ["s"]),
        ({"s": running("s"), "i": ended("i")}, DEFAULT_HEALTH, ["a"]),
        ({"s": ended("s"), "i": ended("i"), "a": running("a")}, DEFAULT_HEALTH, ["s"]),
    ],
)
def test_sidecars_start_in_order_and_keep_running(
    histories: dict[str, RunHistory], health: ProbeHealth, expected: list[str]
) -> None:
    subject = pod("a", init=(sidecar("s", startupProbe={"exec": {}}), "i"))
    assert started(subject, histories, s=health) == expected


def test_a_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    subject = pod("a", init=("i",), restartPolicy="Never")
    assert plan_actions(subject, {"i": ended("i", 1)}) == PodActions(is_finished=True)


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
def test_pod_is_finished_when_no_container_will_run_again(
    policy: str, code: int, over: bool
) -> None:
    subject = pod("a", init=(sidecar("s"),), restartPolicy=policy)
    found = plan_actions(subject, {"s": running("s"), "a": ended("a", code)})
    assert found.is_finished is over
    assert list(found.start) == ([] if over else ["a"])


def test_container_that_fails_liveness_is_stopped() -> None:
    subject = pod("a", "b")
    found = plan_actions(subject, {"a": running("a"), "b": running("b")}, a=DEAD)
    assert [stop.message for stop in found.stop] == [
        "Container a failed liveness probe, will be restarted"
    ]
    assert not found.is_finished


def test_a_dead_container_is_not_restarted_where_the_pod_never_restarts() -> None:
    found = plan_actions(pod("a", restartPolicy="Never"), {"a": running("a")}, a=DEAD)
    assert [stop.message for stop in found.stop] == ["Container a failed liveness probe"]
    assert found.is_finished


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
    assert should_restart(subject, subject.container("a"), code) is again


@pytest.mark.parametrize(
    ("histories", "expected"),
    [
        ({"a": running("a")}, ["e"]),
        ({"a": running("a"), "e": ended("e", 1)}, []),
        ({}, ["i", "e"]),
    ],
)
def test_ephemeral_containers_run_once(
    histories: dict[str, RunHistory], expected: list[str]
) -> None:
    init = () if histories else ("i",)
    subject = pod("a", init=init, ephemeralContainers=[{"name": "e"}])
    assert started(subject, histories) == expected


def test_sidecars_end_last_in_reverse_order() -> None:
    subject = pod("a", "b", init=(sidecar("s"), "i", sidecar("t")))
    assert compute_termination_order(subject, ["s", "t", "a"]) == {
        "a": frozenset(),
        "t": frozenset({"a"}),
        "s": frozenset({"a", "t"}),
    }
