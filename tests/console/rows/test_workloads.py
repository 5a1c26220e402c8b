"""States and reasons of workloads, shared by the page and the commands."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kilonova.console.objects import GpuWorkload, Job, ReplicatedWorkload
from kilonova.console.rows.model import (
    CliqueRow,
    GangRow,
    OwnerRow,
    PodRow,
    SetClique,
    SetRow,
    WorkloadRow,
)
from kilonova.console.rows.owners import (
    deployment_row,
    gpu_workload_row,
    job_row,
    stateful_set_row,
)
from kilonova.console.rows.workloads import STATES, WorkloadParts, workload_row


def pod(name: str, **other: Any) -> PodRow:
    usual: dict[str, Any] = {
        "id": f"x/{name}",
        "phase": "Running",
        "state": "Running",
        "ready": True,
    }
    usual.update({"node": "n", "workload": "Job/x/j"} | other)
    return PodRow(**usual)


def waiting(name: str, **other: Any) -> PodRow:
    usual: dict[str, Any] = {"phase": "Pending", "state": "Pending", "node": "", "ready": False}
    usual.update(other)
    return pod(name, **usual)


def ended(name: str, phase: str, **other: Any) -> PodRow:
    word = "Completed" if phase == "Succeeded" else "Error"
    usual: dict[str, Any] = {"phase": phase, "state": word, "ready": False}
    usual.update(other)
    return pod(name, **usual)


def job(*conditions: str | dict[str, Any], spec: Any = None, **status: Any) -> OwnerRow:
    told = [
        {"type": each, "status": "True"} if isinstance(each, str) else each for each in conditions
    ]
    body = {"metadata": META, "spec": spec or {}, "status": {"conditions": told, **status}}
    return job_row(msgspec.convert(body, Job))


def deployment(desired: int, **status: Any) -> OwnerRow:
    body = {"metadata": META, "spec": {"replicas": desired}, "status": status}
    return deployment_row(msgspec.convert(body, ReplicatedWorkload))


def row_of(kind: str, **parts: Any) -> WorkloadRow:
    return workload_row(WorkloadParts(f"{kind}/x/j", **parts))


META = {"name": "j", "namespace": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}
SET = SetRow(id="x/j", replicas=1, cliques=(SetClique(name="w", replicas=2, min=2, gpus=4),))
GANG = GangRow(id="x/j-0", phase="Running", groups=(), set="x/j")
RETRIED = [ended("a", "Failed"), ended("b", "Succeeded")]
QUOTA_EXCEEDED = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
STUCK = {"type": "Progressing", "status": "False", "message": "deadline exceeded"}

JOBS: dict[str, tuple[OwnerRow, Sequence[PodRow], str]] = {
    "a retried pod, then a success": (job("Complete", succeeded=1, failed=1), RETRIED, "Completed"),
    "a success policy that is met": (
        job("SuccessCriteriaMet", spec={"completions": 3}, succeeded=1),
        [ended("a", "Succeeded"), pod("b", state="Terminating")],
        "Completed",
    ),
    "a success policy left a failed pod": (
        job("SuccessCriteriaMet", "Complete", spec={"completions": 3}, succeeded=1),
        RETRIED,
        "Completed",
    ),
    "failed for good": (job("Failed"), [ended("a", "Failed")], "Failed"),
    "failed, with a pod that succeeded": (job("Failed"), RETRIED, "Failed"),
    "about to fail": (job("FailureTarget"), [pod("a", state="Terminating")], "Failed"),
    "a failed pod will be retried": (job(failed=1), [ended("a", "Failed")], "Creating"),
    "a retry runs": (job(failed=1, active=1), [ended("a", "Failed"), pod("b")], "Running"),
    "no pod yet": (job(), [], "Creating"),
    "suspended before it began": (job(spec={"suspend": True}), [], "Suspended"),
    "suspended while it ran": (job("Suspended"), [pod("a", state="Terminating")], "Suspended"),
    "a condition that is not true": (
        job({"type": "Failed", "status": "False"}, active=1),
        [pod("a")],
        "Running",
    ),
    "one of two waits for a node": (job(active=2), [pod("a"), waiting("b")], "Partial"),
}


@pytest.mark.parametrize(("owner", "pods", "state"), JOBS.values(), ids=JOBS)
def test_job_has_the_state_of_its_conditions(owner: OwnerRow, pods: Sequence[PodRow], state: str):
    assert row_of("Job", owner=owner, pods=pods).state == state


def test_succeeded_pods_of_a_job_count_towards_completions() -> None:
    retried = row_of("Job", owner=job("Complete", succeeded=1, failed=1), pods=RETRIED)
    assert (retried.ready, retried.pods, retried.why) == (1, 1, "")
    half = job(spec={"completions": 4, "parallelism": 2}, succeeded=2, active=1)
    row = row_of("Job", owner=half, pods=[ended("a", "Succeeded"), pod("b")])
    assert (row.ready, row.pods) == (3, 4)
    # Without completions the existing pods count.
    assert row_of("Job", owner=job("Complete", spec={"parallelism": 3}, succeeded=1)).pods == 1


def test_failed_job_has_its_reason() -> None:
    failed = job({"type": "Failed", "status": "True", "message": "backoffLimit reached"})
    assert row_of("Job", owner=failed, pods=RETRIED).why == "backoffLimit reached"
    waits = row_of("Job", owner=job(failed=1), pods=[ended("a", "Failed", message="exited with 1")])
    assert waits.why == "Error, exited with 1"


OWNED: dict[str, tuple[OwnerRow, Sequence[PodRow], str]] = {
    "scaled to none": (deployment(0), [], "Empty"),
    "on its way to none": (deployment(0), [pod("a", state="Terminating")], "Terminating"),
    "all ready": (deployment(1), [pod("a")], "Running"),
    "too few pods": (deployment(2), [pod("a")], "Starting"),
    "a pod that an update replaces": (
        deployment(1, replicas=2, updatedReplicas=1),
        [pod("a"), pod("b", ready=False)],
        "Updating",
    ),
    "an update that is stuck": (
        deployment(1, replicas=2, updatedReplicas=1, conditions=[STUCK]),
        [pod("a"), pod("b", ready=False)],
        "Degraded",
    ),
    "no pod was let in": (deployment(1, conditions=[QUOTA_EXCEEDED]), [], "Creating"),
    "one is ready while another leaves": (
        deployment(1),
        [pod("a"), pod("b", state="Terminating")],
        "Running",
    ),
}


@pytest.mark.parametrize(("owner", "pods", "state"), OWNED.values(), ids=OWNED)
def test_deployment_has_the_state_of_its_pods_and_rollout(
    owner: OwnerRow, pods: Sequence[PodRow], state: str
) -> None:
    assert row_of("Deployment", owner=owner, pods=pods).state == state


def test_deployment_without_pods_has_its_reason() -> None:
    exceeded = deployment(1, conditions=[QUOTA_EXCEEDED])
    assert row_of("Deployment", owner=exceeded).why == "exceeded quota"
    assert row_of("Deployment", owner=deployment(1, conditions=[STUCK])).why == "deadline exceeded"


@pytest.mark.parametrize(
    ("strategy", "revision", "updating"),
    [
        ({"type": "RollingUpdate"}, "2", True),
        ({"type": "RollingUpdate"}, "1", False),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}, "2", False),
        ({"type": "OnDelete"}, "2", False),
    ],
)
def test_stateful_set_update_respects_the_partition(
    strategy: Any, revision: str, updating: bool
) -> None:
    status = {"currentRevision": "1", "updateRevision": revision, "updatedReplicas": 0}
    body = {
        "metadata": META,
        "spec": {"replicas": 2, "updateStrategy": strategy},
        "status": status,
    }
    assert stateful_set_row(msgspec.convert(body, ReplicatedWorkload)).updating is updating


PODS: dict[str, tuple[Sequence[PodRow], str]] = {
    "all ready": ([pod("a"), pod("b")], "Running"),
    "one is not": ([pod("a"), pod("b", ready=False)], "Starting"),
    "none has a node": ([waiting("a")], "Pending"),
    "gated": ([waiting("a", state="SchedulingGated")], "Pending"),
    "some have a node": ([pod("a"), waiting("b")], "Partial"),
    "one crashes beside a ready one": (
        [pod("a"), pod("b", ready=False, state="CrashLoopBackOff")],
        "Degraded",
    ),
    "all crash": ([pod("a", ready=False, state="ImagePullBackOff")], "Failed"),
    "all succeeded": ([ended("a", "Succeeded")], "Completed"),
    "one failed": (RETRIED, "Failed"),
    "all leave": ([pod("a", state="Terminating")], "Terminating"),
    "ended ones beside one that runs": ([ended("a", "Failed"), pod("b")], "Running"),
}


@pytest.mark.parametrize(("pods", "state"), PODS.values(), ids=PODS)
def test_unowned_workload_has_the_state_of_its_pods(pods: Sequence[PodRow], state: str) -> None:
    assert row_of("Pod", pods=pods).state == state


SETS: dict[str, tuple[dict[str, Any], str]] = {
    "of none": ({"set": replace(SET, replicas=0)}, "Empty"),
    "without gangs": ({"set": SET}, "Creating"),
    "whose gang has no place": (
        {"set": SET, "gangs": [replace(GANG, phase="Pending")]},
        "Pending",
    ),
    "that lacks pods": ({"set": SET, "gangs": [GANG], "pods": [pod("a")]}, "Starting"),
    "that is complete": ({"set": SET, "gangs": [GANG], "pods": [pod("a"), pod("b")]}, "Running"),
    "that is updated": (
        {"set": replace(SET, updating=True), "pods": [pod("a"), pod("b")]},
        "Updating",
    ),
    "that is deleted": (
        {"set": replace(SET, deleting=True), "pods": [pod("a")]},
        "Terminating",
    ),
    "scaled by its cliques": (
        {"set": SET, "cliques": [CliqueRow(id="x/c", replicas=1, min=1)], "pods": [pod("a")]},
        "Running",
    ),
}


@pytest.mark.parametrize(("parts", "state"), SETS.values(), ids=SETS)
def test_state_of_a_set(parts: dict[str, Any], state: str) -> None:
    assert row_of("PodCliqueSet", **parts).state == state


MEMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "that has no pods yet": ({"members": [SET]}, "Creating"),
    "whose gang has no place": (
        {"members": [SET], "gangs": [replace(GANG, phase="Pending")]},
        "Pending",
    ),
    "scaled to none": ({"members": [replace(SET, replicas=0), deployment(0)]}, "Empty"),
    "partly scaled to none": ({"members": [replace(SET, replicas=0), deployment(1)]}, "Creating"),
    "that is deleted": ({"members": [replace(SET, deleting=True)]}, "Terminating"),
    "that has finished": ({"members": [job("Complete")]}, "Completed"),
    "with pods": ({"members": [SET], "gangs": [GANG], "pods": [pod("a")]}, "Running"),
}
"""What another object declares for a workload whose own object is not known."""


@pytest.mark.parametrize(("parts", "state"), MEMBERS.values(), ids=MEMBERS)
def test_state_of_a_workload_whose_pods_another_object_makes(
    parts: dict[str, Any], state: str
) -> None:
    assert row_of("Chat.example.com", **parts).state == state


def test_workload_without_pods_counts_what_its_members_declare() -> None:
    row = row_of("Chat.example.com", members=[SET, replace(deployment(3), gpus=2, problem="quota")])
    assert (row.pods, row.gpus, row.why) == (2 + 3, 8 + 6, "quota")


def test_reason_of_the_gang_precedes_those_of_its_pods() -> None:
    late = waiting("a", message="no node has capacity", gpus=2)
    gang = replace(GANG, phase="Pending", pending_reason="the queue is full", queue="q")
    row = row_of("PodCliqueSet", set=SET, gangs=[gang], pods=[late])
    assert (row.why, row.queue, row.gpus) == ("the queue is full", "q", 2)
    assert row_of("Pod", pods=[late]).why == "no node has capacity"


def test_gpus_are_those_of_the_template_until_there_are_pods() -> None:
    assert row_of("PodCliqueSet", set=SET).gpus == 8
    parts = [pod("a", devices=((0, 0.5),)), pod("b", gpus=2, state="Terminating")]
    assert row_of("PodCliqueSet", set=SET, pods=parts).gpus == 2.5


def test_all_states_are_listed() -> None:
    tables: list[dict[str, Any]] = [JOBS, OWNED, PODS, SETS]
    assert {case[-1] for table in tables for case in table.values()} == set(STATES)


def gpu_workload(phase: str, *conditions: tuple[str, str, str], count: int = 8) -> OwnerRow:
    told = [
        {"type": type_, "status": status, "reason": "R", "message": message}
        for type_, status, message in conditions
    ]
    body = {
        "metadata": META,
        "spec": {"gpuRequirements": {"count": count}},
        "status": {"phase": phase, "pods": 2, "conditions": told},
    }
    return gpu_workload_row(msgspec.convert(body, GpuWorkload))


@pytest.mark.parametrize(
    ("owner", "pods", "expected"),
    [
        pytest.param(
            gpu_workload("Pending", ("Accepted", "False", "spec.podTemplate is missing")),
            [],
            ("Creating", 2, 0, 8.0, "spec.podTemplate is missing"),
            id="a spec that cannot be carried out",
        ),
        pytest.param(
            gpu_workload("Pending", ("Scheduled", "False", "pod x/head has no node")),
            [],
            ("Creating", 2, 0, 8.0, "pod x/head has no node"),
            id="waiting for a pod of another",
        ),
        pytest.param(
            gpu_workload("Running", ("Scheduled", "True", "8 GPUs")),
            [pod("j-0", gpus=4), pod("j-1", gpus=4)],
            ("Running", 2, 2, 8.0, ""),
            id="running",
        ),
        pytest.param(
            gpu_workload("Succeeded"),
            [ended("j-0", "Succeeded"), ended("j-1", "Succeeded")],
            ("Completed", 2, 2, 0.0, ""),
            id="succeeded",
        ),
        pytest.param(
            gpu_workload("Failed", ("Failed", "True", "pod j-0 has failed")),
            [],
            ("Failed", 2, 0, 0.0, "pod j-0 has failed"),
            id="failed, its pods deleted",
        ),
    ],
)
def test_gpu_workload(
    owner: OwnerRow, pods: list[PodRow], expected: tuple[str, int, int, float, str]
) -> None:
    row = workload_row(WorkloadParts("GPUWorkload/x/j", owner=owner, pods=pods))
    assert (row.state, row.pods, row.ready, row.gpus, row.why) == expected
