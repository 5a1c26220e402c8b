"""What is said of pods: states, phases, conditions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kilonova.local.kinds.walk import at
from kilonova.local.nodes.process.kubelet.containerstatus import Seen, Waiting
from kilonova.local.nodes.process.kubelet.pods import Pod
from kilonova.local.nodes.process.kubelet.podstatus import (
    Situation,
    Verdict,
    deadline_left,
    pod_status,
)
from kilonova.local.nodes.process.kubelet.runs import History, recovered, run_id
from kilonova.local.nodes.process.kubelet.sequence import HEALTHY, Health
from kilonova.local.nodes.process.runtime import ContainerState
from tests.local.process.kubelet.kubelet_pods import NEVER_RAN, UID, ended, pod, running, sidecar

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
UNREADY = Health(ready=False)


def told(
    subject: Pod,
    histories: dict[str, History],
    *,
    health: dict[str, Health] | None = None,
    waiting: dict[str, Waiting] | None = None,
    **situation: Any,
) -> Any:
    seen = {
        each.name: Seen(
            histories.get(each.name, NEVER_RAN),
            (health or {}).get(each.name, HEALTHY),
            (waiting or {}).get(each.name),
        )
        for each in subject.all_containers
    }
    situation = {"prepared": True, **situation}
    return pod_status(subject, Situation(seen, "127.64.0.1", "127.0.0.1", **situation), NOW)


def condition(status: Any, kind: str) -> Any:
    found = next(each for each in status["conditions"] if each["type"] == kind)
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize(
    ("policy", "histories", "ended_all", "phase"),
    [
        ("Always", {}, False, "Pending"),
        ("Always", {"a": running("a")}, False, "Pending"),
        ("Always", {"a": running("a"), "b": running("b")}, False, "Running"),
        ("Always", {"a": ended("a"), "b": ended("b")}, False, "Running"),
        ("OnFailure", {"a": ended("a"), "b": ended("b", 1)}, False, "Running"),
        ("Never", {"a": ended("a"), "b": ended("b")}, True, "Succeeded"),
        ("Never", {"a": ended("a"), "b": ended("b", 1)}, True, "Failed"),
        ("Always", {"a": ended("a"), "b": ended("b", 143)}, True, "Failed"),
        ("Always", {}, True, "Failed"),
    ],
)
def test_phase(policy: str, histories: dict[str, History], ended_all: bool, phase: str) -> None:
    status = told(pod("a", "b", restartPolicy=policy), histories, ended=ended_all)
    assert status["phase"] == phase


def test_an_end_is_not_told_while_something_may_run() -> None:
    subject = pod("a", restartPolicy="Never", status={"phase": "Running"})
    assert told(subject, {"a": ended("a")}, ending=True)["phase"] == "Running"


def test_what_ended_stays_ended() -> None:
    subject = pod("a", status={"phase": "Succeeded"})
    assert told(subject, {})["phase"] == "Succeeded"


def test_a_pod_initializes_before_it_runs() -> None:
    status = told(pod("a", init=("i",)), {"i": running("i")})
    assert status["phase"] == "Pending"
    assert condition(status, "Initialized") == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [i]",
    )
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_a_ready_pod() -> None:
    status = told(pod("a", init=(sidecar("s"),)), {"s": running("s"), "a": running("a")})
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
        assert condition(status, kind) == ("True", None, None)
    assert status["containerStatuses"][0]["ready"] is True
    assert status["initContainerStatuses"][0]["started"] is True
    assert {each["observedGeneration"] for each in status["conditions"]} == {3}


def test_an_unready_pod_names_its_containers() -> None:
    status = told(pod("a", "b"), {"a": running("a"), "b": running("b")}, health={"b": UNREADY})
    expected = ("False", "ContainersNotReady", "containers with unready status: [b]")
    assert condition(status, "Ready") == expected == condition(status, "ContainersReady")
    assert status["phase"] == "Running"


@pytest.mark.parametrize(
    ("present", "message"),
    [
        ([], 'corresponding condition of pod readiness gate "x.y/z" does not exist.'),
        (
            [{"type": "x.y/z", "status": "False"}],
            'the status of pod readiness gate "x.y/z" is not "True", but False',
        ),
    ],
)
def test_readiness_gates(present: list[Any], message: str) -> None:
    gates = [{"conditionType": "x.y/z"}]
    subject = pod("a", readinessGates=gates, status={"conditions": present})
    status = told(subject, {"a": running("a")})
    assert condition(status, "Ready") == ("False", "ReadinessGatesNotReady", message)
    assert condition(status, "ContainersReady")[0] == "True"


@pytest.mark.parametrize(
    ("phase", "reason"), [("Succeeded", "PodCompleted"), ("Failed", "PodFailed")]
)
def test_an_ended_pod_is_not_ready(phase: str, reason: str) -> None:
    history = ended("a", 0 if phase == "Succeeded" else 1)
    status = told(pod("a", restartPolicy="Never"), {"a": history}, ended=True)
    assert condition(status, "Ready") == ("False", reason, None)
    assert condition(status, "PodReadyToStartContainers")[0] == "False"


def test_a_transition_keeps_its_time_while_nothing_changes() -> None:
    before = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-04-01T00:00:00Z"}
    status = told(pod("a", status={"conditions": [before]}), {"a": running("a")})
    times = {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
    assert times["Ready"] == "2026-04-01T00:00:00Z"
    assert times["ContainersReady"] == "2026-05-01T12:00:00Z"


def test_a_crash_loop_shows_how_it_ended() -> None:
    waiting = Waiting("CrashLoopBackOff", "back-off 10s restarting failed container=a pod=p")
    status = told(pod("a"), {"a": ended("a", 1, attempt=2)}, waiting={"a": waiting})
    found = status["containerStatuses"][0]
    assert at(found, "state", "waiting", "reason") == "CrashLoopBackOff"
    assert at(found, "lastState", "terminated", "exitCode") == 1
    assert (found["restartCount"], status["phase"]) == (2, "Running")


def test_a_container_that_cannot_be_made_says_why() -> None:
    waiting = Waiting("CreateContainerConfigError", 'configmap "c" not found')
    status = told(pod("a"), {}, waiting={"a": waiting})
    assert status["containerStatuses"][0]["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "c" not found',
    }
    assert status["phase"] == "Pending"


def test_a_verdict_ends_a_pod_with_its_reason() -> None:
    verdict = Verdict("DeadlineExceeded", "too long")
    running_still = told(
        pod("a", status={"phase": "Running"}), {"a": running("a")}, verdict=verdict
    )
    assert running_still["phase"] == "Running"
    over = told(pod("a"), {"a": ended("a", 143)}, verdict=verdict, ended=True)
    assert (over["phase"], over["reason"], over["message"]) == (
        "Failed",
        "DeadlineExceeded",
        "too long",
    )


def test_the_deadline_counts_from_the_start() -> None:
    subject = pod("a", activeDeadlineSeconds=60, status={"startTime": "2026-05-01T11:59:30Z"})
    assert deadline_left(subject, NOW) == 30
    assert deadline_left(pod("a"), NOW) is None


def test_runs_come_from_the_runtime_first() -> None:
    states = [
        ContainerState(run_id(UID, "a", 1), UID, "a", 7, 50.0, 60.0, 1, "Error"),
        ContainerState(run_id(UID, "a", 2), UID, "a", 8, 70.0),
    ]
    history = recovered(pod("a"), states, 90.0)["a"]
    assert history.latest is not None
    assert history.previous is not None
    assert (history.latest.attempt, history.latest.is_running) == (2, True)
    assert (history.previous.attempt, history.previous.exit_code) == (1, 1)


def test_a_run_that_the_runtime_lost_has_failed() -> None:
    said = {
        "name": "a",
        "restartCount": 4,
        "state": {"running": {"startedAt": "2026-05-01T11:00:00Z"}},
    }
    history = recovered(pod("a", status={"containerStatuses": [said]}), [], 90.0)["a"]
    assert history.latest is not None
    assert (history.latest.reason, history.latest.exit_code) == ("ContainerStatusUnknown", 137)
    assert history.next_attempt == 5


def test_a_run_that_never_came_about_is_known_from_the_status() -> None:
    end = {"exitCode": 128, "reason": "StartError", "finishedAt": "2026-05-01T11:00:00Z"}
    said = {
        "name": "a",
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": end},
    }
    history = recovered(pod("a", status={"containerStatuses": [said]}), [], 90.0)["a"]
    assert history.latest is not None
    assert (history.latest.attempt, history.latest.exit_code) == (3, 128)
