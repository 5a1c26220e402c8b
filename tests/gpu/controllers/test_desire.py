"""What is written for a workload, as a table of what exists."""

from collections.abc import Sequence
from dataclasses import replace as replace_plan
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kilonova.api.kgwe import GPUWorkload
from kilonova.api.podgang import PodGang
from kilonova.gpu.controllers.gpuworkload.affinity import ReferencedPod
from kilonova.gpu.controllers.gpuworkload.desire import WorkloadPlan, desire
from kilonova.gpu.controllers.gpuworkload.gang import build_gang
from kilonova.gpu.controllers.gpuworkload.observed import ObservedWorkload
from kilonova.gpu.controllers.gpuworkload.pods import build_pod
from kilonova.gpu.controllers.gpuworkload.split import build_split
from kilonova.gpu.controllers.node_devices import DevicesOfNode
from kilonova.gpu.controllers.settings import ControllerSettings
from kilonova.kube.status import find_condition
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.objects.core_v1 import Pod
from tests.gpu.controllers.manifests import workload

SETTINGS = ControllerSettings()
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CREATED = "2026-05-01T11:00:00Z"
EARLIER = "2026-05-01T11:59:00Z"
DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "made way",
}


def decode(gpus: int = 16, changes: Any = None, **status: Any) -> GPUWorkload:
    body = workload(gpus=gpus, changes=changes)
    known = {"uid": "u", "resourceVersion": "1", "generation": 4, "creationTimestamp": CREATED}
    body["metadata"] |= known
    return msgspec.convert({**body, "status": status}, GPUWorkload)


def pods_of(own: GPUWorkload, *states: Any, incarnation: int = 0) -> list[Pod]:
    """A pod for each state: None (absent), or changes of an ungated pod."""
    split = build_split(own.spec, len(states))
    found: list[Pod] = []
    for rank, state in enumerate(states):
        if state is None:
            continue
        body = build_pod(own, split, rank, SETTINGS, incarnation=incarnation)
        name = body["metadata"]["name"]
        body["metadata"] |= {"uid": name, "resourceVersion": "1", **state.get("metadata", {})}
        if not state.get("gated"):
            del body["spec"]["schedulingGates"]
        if "node" in state:
            body["spec"]["nodeName"] = state["node"]
        status = {"phase": state.get("phase", "Pending"), **state.get("status", {})}
        found.append(msgspec.convert({**body, "status": status}, Pod))
    return found


def gang_of(own: GPUWorkload, pods: int = 2, incarnation: int = 0, **status: Any) -> PodGang:
    body = build_gang(own, build_split(own.spec, pods), incarnation)
    body["metadata"] |= {"uid": "g", "resourceVersion": "1"}
    return msgspec.convert({**body, "status": status}, PodGang)


def observe(
    own: GPUWorkload, pods: Sequence[Pod] = (), gang: PodGang | None = None, **more: Any
) -> ObservedWorkload:
    def fits(_: Shape, size: int) -> bool:
        return size <= 8

    def read_devices(_: str) -> DevicesOfNode | None:
        return None

    return ObservedWorkload(own, pods, gang, None, read_devices, fits, **more)


def plan_for(
    own: GPUWorkload, pods: Sequence[Pod] = (), gang: PodGang | None = None, **more: Any
) -> WorkloadPlan:
    return desire(observe(own, pods, gang, **more), NOW, SETTINGS)


def created(plan: WorkloadPlan) -> list[str]:
    return [each["metadata"]["name"] for each in plan.create]


def deleted(plan: WorkloadPlan) -> list[str]:
    return [each.metadata.name for each in plan.delete]


def ungated(plan: WorkloadPlan) -> list[str]:
    return [each.metadata.name for each in plan.ungate]


def reason_of(plan: WorkloadPlan, type_: str) -> tuple[str, str] | None:
    found = find_condition(plan.status.conditions, type_)
    return None if found is None else (found.status, found.reason)


GATED: Any = {"gated": True}
FREE: Any = {}
BOUND: Any = {"node": "n1"}
RUNS: Any = {"node": "n1", "phase": "Running"}
DONE: Any = {"node": "n1", "phase": "Succeeded"}
GOING: Any = {**RUNS, "metadata": {"deletionTimestamp": EARLIER}}


def test_everything_is_created() -> None:
    plan = plan_for(decode())
    assert created(plan) == ["job-0", "job-1"]
    assert plan.gang is not None
    assert plan.service is not None
    assert plan.priority_class is None
    assert plan.status.phase == "Pending"
    assert reason_of(plan, "Scheduled") == ("False", "PodsPending")
    assert reason_of(plan, "Accepted") == ("True", "Valid")
    assert plan.status.observed_generation == 4


def test_priority_class_is_written_before_pods() -> None:
    plan = plan_for(decode(8, {"spec.priority": 9}))
    assert plan.priority_class is not None
    assert plan.priority_class["value"] == 9
    assert plan.service is None


PHASES: dict[str, tuple[tuple[Any, Any], str, list[str], list[str]]] = {
    "one is missing": ((GATED, None), "Pending", ["job-1"], []),
    "all are gated": ((GATED, GATED), "Pending", [], ["job-0", "job-1"]),
    "one is still gated": ((FREE, GATED), "Pending", [], ["job-1"]),
    "none is gated": ((FREE, FREE), "Scheduling", [], []),
    "one is bound": ((BOUND, FREE), "Scheduling", [], []),
    "all are bound": ((BOUND, BOUND), "Scheduled", [], []),
    "one runs": ((RUNS, BOUND), "Scheduled", [], []),
    "all run": ((RUNS, RUNS), "Running", [], []),
    "one has ended": ((RUNS, DONE), "Running", [], []),
}


@pytest.mark.parametrize(("states", "phase", "create", "ungate"), PHASES.values(), ids=PHASES)
def test_phase_follows_the_pods(
    states: Any, phase: str, create: list[str], ungate: list[str]
) -> None:
    own = decode()
    plan = plan_for(own, pods_of(own, *states), gang_of(own))
    assert (plan.status.phase, created(plan), ungated(plan)) == (phase, create, ungate)
    assert deleted(plan) == []
    assert not plan.status_first


def test_pods_stay_gated_until_the_gang_lists_them() -> None:
    own = decode(incarnation=1)
    pods = pods_of(own, GATED, GATED, incarnation=1)
    assert ungated(plan_for(own, pods, None)) == []
    assert ungated(plan_for(own, pods, gang_of(own))) == []
    assert ungated(plan_for(own, pods, gang_of(own, incarnation=1))) == ["job-0-r1", "job-1-r1"]


def test_start_time_is_that_of_the_first_run() -> None:
    own = decode()
    plan = plan_for(own, pods_of(own, RUNS, RUNS), gang_of(own))
    assert plan.status.start_time == "2026-05-01T12:00:00Z"
    again = decode(startTime=EARLIER)
    plan = plan_for(again, pods_of(again, RUNS, RUNS), gang_of(again))
    assert plan.status.start_time == EARLIER


def test_reason_of_the_scheduler_is_passed_on() -> None:
    own = decode()
    waiting = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "InsufficientCapacity",
        "message": "0/2 nodes",
    }
    plan = plan_for(own, pods_of(own, FREE, FREE), gang_of(own, conditions=[waiting]))
    assert reason_of(plan, "Scheduled") == ("False", "InsufficientCapacity")


FAILED: Any = {
    "node": "n1",
    "phase": "Failed",
    "status": {
        "containerStatuses": [{"name": "trainer", "state": {"terminated": {"exitCode": 2}}}]
    },
}
EVICTED: Any = {"node": "n1", "phase": "Failed", "status": {"reason": "Evicted"}}
PREEMPTED: Any = {"node": "n1", "phase": "Failed", "status": {"conditions": [DISRUPTED]}}
RESTARTS: dict[str, tuple[Any, str]] = {
    "one is being deleted": ((RUNS, GOING), "pod job-1 was deleted"),
    "one is gone": ((RUNS, None), "pod job-1 is gone"),
    "one was evicted by its node": ((EVICTED, RUNS), "pod job-0 was disrupted: Evicted"),
    "one was preempted": (
        (RUNS, PREEMPTED),
        "pod job-1 was disrupted: PreemptionByScheduler: made way",
    ),
    "one is lost after another has ended": ((DONE, GOING), "pod job-1 was deleted"),
    "a gated one is deleted": (
        (GATED, {**GATED, "metadata": {"deletionTimestamp": EARLIER}}),
        "pod job-1 was deleted",
    ),
}


@pytest.mark.parametrize(("states", "reason"), RESTARTS.values(), ids=RESTARTS)
def test_all_pods_are_replaced_when_one_is_lost(states: Any, reason: str) -> None:
    own = decode(incarnation=2, nodes=["n1"], scheduledNode="n1")
    plan = plan_for(own, pods_of(own, *states, incarnation=2), gang_of(own, incarnation=2))
    assert plan.status_first
    assert plan.status.incarnation == 3
    assert plan.status.nodes == ()
    assert deleted(plan) == created(plan) == []
    (event,) = plan.events
    assert event.reason == "Restarted"
    assert event.message.replace("-r2", "") == f"Replacing all pods: {reason}"


@pytest.mark.parametrize(("seconds", "incarnation"), [(4, 1), (10, 2)])
def test_pods_are_not_replaced_too_often(seconds: int, incarnation: int) -> None:
    last = (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    own = decode(incarnation=1, lastRestartTime=last)
    plan = plan_for(own, pods_of(own, EVICTED, None, incarnation=1), gang_of(own, incarnation=1))
    assert plan.status.incarnation == incarnation
    assert created(plan) == deleted(plan) == []
    assert plan.requeue_after == (6.0 if incarnation == 1 else None)


def test_former_pods_are_deleted_once_the_status_says_so() -> None:
    own = decode(incarnation=1)
    plan = plan_for(own, pods_of(own, RUNS, GOING), gang_of(own))
    assert deleted(plan) == ["job-0"]
    assert created(plan) == ["job-0-r1", "job-1-r1"]
    assert not plan.status_first


def test_workload_succeeds_with_its_pods() -> None:
    own = decode()
    plan = plan_for(own, pods_of(own, DONE, DONE), gang_of(own))
    assert plan.status.phase == "Succeeded"
    assert plan.status.completion_time == "2026-05-01T12:00:00Z"
    assert reason_of(plan, "Complete") == ("True", "PodsSucceeded")
    assert not any(each.is_warning for each in plan.events)


def test_workload_fails_with_a_pod() -> None:
    own = decode()
    plan = plan_for(own, pods_of(own, RUNS, FAILED), gang_of(own))
    assert plan.status.phase == "Failed"
    found = find_condition(plan.status.conditions, "Failed")
    assert found is not None
    assert found.message == "container trainer of pod job-1 exited with 2"


def test_failed_workload_releases_its_gpus() -> None:
    own = decode(phase="Failed")
    plan = plan_for(own, pods_of(own, RUNS, FAILED), gang_of(own))
    assert deleted(plan) == ["job-0"]
    assert plan.delete_gang
    assert plan.status == own.status


def test_ended_workload_stays_as_it_is() -> None:
    own = decode(phase="Succeeded")
    plan = plan_for(own, pods_of(own, DONE, None), gang_of(own))
    assert created(plan) == deleted(plan) == []
    assert not plan.delete_gang


def test_pods_of_others_are_left_alone() -> None:
    own = decode()
    other = pods_of(own, RUNS, RUNS)
    for pod in other:
        pod.metadata = msgspec.structs.replace(pod.metadata, owner_references=())
    plan = plan_for(own, other)
    assert created(plan) == ["job-0", "job-1"]
    assert deleted(plan) == []


def test_changed_spec_replaces_pods_without_nodes() -> None:
    pods = pods_of(decode(), FREE, FREE)
    changed = decode(changes={"spec.priority": 5})
    plan = plan_for(changed, pods, gang_of(changed))
    assert plan.status_first
    assert plan.status.incarnation == 1


def test_changed_spec_waits_for_pods_with_nodes() -> None:
    pods = pods_of(decode(), RUNS, RUNS)
    changed = decode(changes={"spec.priority": 5})
    plan = plan_for(changed, pods, gang_of(changed))
    assert plan.status.incarnation == 0
    assert reason_of(plan, "Accepted") == ("True", "ChangedAfterPlacement")


def test_spec_that_became_invalid_does_not_hide_the_end() -> None:
    pods = pods_of(decode(), DONE, DONE)
    changed = decode(changes={"spec.podTemplate": None})
    plan = plan_for(changed, pods, gang_of(changed))
    assert plan.status.phase == "Succeeded"


def test_split_is_kept_when_a_larger_node_comes() -> None:
    own = decode(8)
    pods = pods_of(own, FREE, FREE)
    plan = plan_for(own, pods, gang_of(own))
    assert plan.status.pods == 2
    assert plan.status.incarnation == 0


def test_split_changes_when_pods_fit_no_node() -> None:
    own = decode(16)
    plan = plan_for(own, pods_of(own, FREE), gang_of(own, 1))
    assert plan.status_first
    assert plan.status.incarnation == 1


LATENCY = {"spec.constraints": {"maxSchedulingLatency": "2m"}}


@pytest.mark.parametrize(("waited", "phase"), [(119, "Scheduling"), (121, "Failed")])
def test_waiting_is_limited(waited: int, phase: str) -> None:
    since = (NOW - timedelta(seconds=waited)).isoformat().replace("+00:00", "Z")
    waiting = {
        "type": "Scheduled",
        "status": "False",
        "reason": "InsufficientCapacity",
        "message": "0/2 nodes",
        "lastTransitionTime": since,
    }
    own = decode(changes=LATENCY, phase="Scheduling", conditions=[waiting])
    plan = plan_for(own, pods_of(own, FREE, FREE), gang_of(own))
    assert plan.status.phase == phase
    if phase == "Failed":
        found = find_condition(plan.status.conditions, "Failed")
        assert found is not None
        assert found.reason == "SchedulingLatencyExceeded"
        assert found.message.endswith("maxSchedulingLatency (2m): 0/2 nodes")
    else:
        assert plan.requeue_after == pytest.approx(1.0)


def test_running_workload_has_no_limit() -> None:
    own = decode(changes=LATENCY, phase="Running")
    plan = plan_for(own, pods_of(own, RUNS, RUNS), gang_of(own))
    assert plan.status.phase == "Running"
    assert plan.requeue_after is None


def test_pods_wait_for_a_referenced_pod() -> None:
    own = decode(changes={"spec.constraints": {"colocateWith": [{"name": "x"}]}})
    key = ("default", "x")
    waiting = plan_for(own, referenced_pods={key: ReferencedPod(exists=True)})
    assert created(waiting) == []
    assert reason_of(waiting, "Scheduled") == ("False", "WaitingForReferencedPods")
    assert waiting.requeue_after == 5.0
    ready = plan_for(own, referenced_pods={key: ReferencedPod(exists=True, node="n")})
    assert created(ready) == ["job-0", "job-1"]


def test_invalid_spec_is_reported_once() -> None:
    own = decode(changes={"spec.podTemplate": None})
    first = plan_for(own)
    assert [each.reason for each in first.events] == ["NoPodTemplate"]
    reasons = {each.type: (each.status, each.reason) for each in first.status.conditions}
    rejected = ("False", "NoPodTemplate")
    assert reasons == {"Accepted": rejected, "Scheduled": rejected}
    known = msgspec.structs.replace(first.status)
    again = GPUWorkload(own.metadata, own.spec, known)
    assert plan_for(again).events == ()
    assert replace_plan(plan_for(again)).status == known


def test_gang_reports_its_phase() -> None:
    own = decode()
    ready = {**RUNS, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    plan = plan_for(own, pods_of(own, ready, ready), gang_of(own))
    assert plan.gang_status is not None
    assert plan.gang_status.phase == "Running"
    assert plan.gang_status.last_scheduled == "2026-05-01T12:00:00Z"
    again = gang_of(own, lastScheduled=EARLIER)
    plan = plan_for(own, pods_of(own, FREE, FREE), again)
    assert plan.gang_status is not None
    assert plan.gang_status.phase == "Pending"
    assert plan.gang_status.last_scheduled is None
