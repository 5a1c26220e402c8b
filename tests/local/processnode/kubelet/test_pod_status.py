"""Pod statuses: states, phases, conditions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kilonova.local.apimachinery.unstructured import nested_value
from kilonova.local.processnode.cri.api import ContainerState
from kilonova.local.processnode.kubelet.containers.actions import DEFAULT_HEALTH, ProbeHealth
from kilonova.local.processnode.kubelet.containers.runs import (
    RunHistory,
    build_run_id,
    recover_histories,
)
from kilonova.local.processnode.kubelet.objects import Pod
from kilonova.local.processnode.kubelet.status.container import ObservedContainer, WaitingState
from kilonova.local.processnode.kubelet.status.pod import (
    ObservedPod,
    PodFailure,
    build_pod_status,
    seconds_to_deadline,
)
from tests.local.processnode.kubelet.kubelet_pods import (
    NEVER_RAN,
    UID,
    ended,
    pod,
    running,
    sidecar,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
UNREADY = ProbeHealth(is_ready=False)


def build_status(
    subject: Pod,
    histories: dict[str, RunHistory],
    *,
    health: dict[str, ProbeHealth] | None = None,
    waiting: dict[str, WaitingState] | None = None,
    **state: Any,
) -> Any:
    observed = {
        each.name: ObservedContainer(
            histories.get(each.name, NEVER_RAN),
            (health or {}).get(each.name, DEFAULT_HEALTH),
            (waiting or {}).get(each.name),
        )
        for each in subject.all_containers
    }
    state = {"is_prepared": True, **state}
    return build_pod_status(subject, ObservedPod(observed, "127.64.0.1", "127.0.0.1", **state), NOW)


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
def test_phase(policy: str, histories: dict[str, RunHistory], ended_all: bool, phase: str) -> None:
    status = build_status(pod("a", "b", restartPolicy=policy), histories, has_ended=ended_all)
    assert status["phase"] == phase


def test_a_terminal_phase_is_not_reported_while_a_container_may_run() -> None:
    subject = pod("a", restartPolicy="Never", status={"phase": "Running"})
    assert build_status(subject, {"a": ended("a")}, is_ending=True)["phase"] == "Running"


def test_terminal_phase_is_final() -> None:
    subject = pod("a", status={"phase": "Succeeded"})
    assert build_status(subject, {})["phase"] == "Succeeded"


def test_a_pod_initializes_before_it_runs() -> None:
    status = build_status(pod("a", init=("i",)), {"i": running("i")})
    assert status["phase"] == "Pending"
    assert condition(status, "Initialized") == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [i]",
    )
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_a_ready_pod() -> None:
    status = build_status(pod("a", init=(sidecar("s"),)), {"s": running("s"), "a": running("a")})
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
        assert condition(status, kind) == ("True", None, None)
    assert status["containerStatuses"][0]["ready"] is True
    assert status["initContainerStatuses"][0]["started"] is True
    assert {each["observedGeneration"] for each in status["conditions"]} == {3}


def test_an_unready_pod_names_its_containers() -> None:
    status = build_status(
        pod("a", "b"), {"a": running("a"), "b": running("b")}, health={"b": UNREADY}
    )
    expected = ("False", "ContainersNotReady", "containers with unready status: [b]")
    assert condition(status, "Ready") == expected == condition(status, "ContainersReady")
    assert status["phase"] == "Running"


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ([], 'corresponding condition of pod readiness gate "x.y/z" does not exist.'),
        (
            [{"type": "x.y/z", "status": "False"}],
            'the status of pod readiness gate "x.y/z" is not "True", but False',
        ),
    ],
)
def test_readiness_gates(conditions: list[Any], message: str) -> None:
    gates = [{"conditionType": "x.y/z"}]
    subject = pod("a", readinessGates=gates, status={"conditions": conditions})
    status = build_status(subject, {"a": running("a")})
    assert condition(status, "Ready") == ("False", "ReadinessGatesNotReady", message)
    assert condition(status, "ContainersReady")[0] == "True"


@pytest.mark.parametrize(
    ("phase", "reason"), [("Succeeded", "PodCompleted"), ("Failed", "PodFailed")]
)
def test_an_ended_pod_is_not_ready(phase: str, reason: str) -> None:
    history = ended("a", 0 if phase == "Succeeded" else 1)
    status = build_status(pod("a", restartPolicy="Never"), {"a": history}, has_ended=True)
    assert condition(status, "Ready") == ("False", reason, None)
    assert condition(status, "PodReadyToStartContainers")[0] == "False"


def test_a_transition_keeps_its_time_while_nothing_changes() -> None:
    before = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-04-01T00:00:00Z"}
    status = build_status(pod("a", status={"conditions": [before]}), {"a": running("a")})
    times = {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
    assert times["Ready"] == "2026-04-01T00:00:00Z"
    assert times["ContainersReady"] == "2026-05-01T12:00:00Z"


def test_crash_loop_reports_the_last_termination() -> None:
    waiting = WaitingState("CrashLoopBackOff", "back-off 10s restarting failed container=a pod=p")
    status = build_status(pod("a"), {"a": ended("a", 1, attempt=2)}, waiting={"a": waiting})
    found = status["containerStatuses"][0]
    assert nested_value(found, "state", "waiting", "reason") == "CrashLoopBackOff"
    assert nested_value(found, "lastState", "terminated", "exitCode") == 1
    assert (found["restartCount"], status["phase"]) == (2, "Running")


def test_container_that_cannot_be_created_reports_why() -> None:
    waiting = WaitingState("CreateContainerConfigError", 'configmap "c" not found')
    status = build_status(pod("a"), {}, waiting={"a": waiting})
    assert status["containerStatuses"][0]["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "c" not found',
    }
    assert status["phase"] == "Pending"


def test_pod_failure_has_its_reason() -> None:
    failure = PodFailure("DeadlineExceeded", "too long")
    running_still = build_status(
        pod("a", status={"phase": "Running"}), {"a": running("a")}, failure=failure
    )
    assert running_still["phase"] == "Running"
    over = build_status(pod("a"), {"a": ended("a", 143)}, failure=failure, has_ended=True)
    assert (over["phase"], over["reason"], over["message"]) == (
        "Failed",
        "DeadlineExceeded",
        "too long",
    )


def test_the_deadline_counts_from_the_start() -> None:
    subject = pod("a", activeDeadlineSeconds=60, status={"startTime": "2026-05-01T11:59:30Z"})
    assert seconds_to_deadline(subject, NOW) == 30
    assert seconds_to_deadline(pod("a"), NOW) is None


def test_runs_come_from_the_runtime_first() -> None:
    states = [
        ContainerState(build_run_id(UID, "a", 1), UID, "a", 7, 50.0, 60.0, 1, "Error"),
        ContainerState(build_run_id(UID, "a", 2), UID, "a", 8, 70.0),
    ]
    history = recover_histories(pod("a"), states, 90.0)["a"]
    assert history.latest is not None
    assert history.previous is not None
    assert (history.latest.attempt, history.latest.is_running) == (2, True)
    assert (history.previous.attempt, history.previous.exit_code) == (1, 1)


def test_a_run_that_the_runtime_lost_has_failed() -> None:
    output = {
        "name": "a",
        "restartCount": 4,
        "state": {"running": {"startedAt": "2026-05-01T11:00:00Z"}},
    }
    history = recover_histories(pod("a", status={"containerStatuses": [output]}), [], 90.0)["a"]
    assert history.latest is not None
    assert (history.latest.reason, history.latest.exit_code) == ("ContainerStatusUnknown", 137)
    assert history.next_attempt == 5


def test_run_that_failed_to_start_is_recovered_from_the_status() -> None:
    end = {"exitCode": 128, "reason": "StartError", "finishedAt": "2026-05-01T11:00:00Z"}
    output = {
        "name": "a",
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": end},
    }
    history = recover_histories(pod("a", status={"containerStatuses": [output]}), [], 90.0)["a"]
    assert history.latest is not None
    assert (history.latest.attempt, history.latest.exit_code) == (3, 128)
