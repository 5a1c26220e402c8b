"""Jobs on simulated nodes, through the API, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.controllers.batch.job_helpers import (
    JOBS,
    condition,
    events_of,
    job,
    pods_of,
    status_of,
    wait_ended,
)
from tests.local.embedded_cluster import (
    advance_time,
    find,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    group = NodeGroup("n", 2, cpu=64, memory="64Gi", stop="1s")
    async with run_cluster(fleet=Fleet(nodes=(group,))) as cluster:
        yield cluster.client("test")


async def test_a_job_runs_to_its_completions(client: Client) -> None:
    await client.create(JOBS, job("work", completions=5, parallelism=2), "default")
    status = await wait_ended(client, "work")
    assert (status["succeeded"], status.get("failed"), status.get("active")) == (5, None, None)
    assert (status["ready"], status["terminating"]) == (0, 0)
    assert status["uncountedTerminatedPods"] == {}
    kinds = [(each["type"], each["reason"]) for each in status["conditions"]]
    assert kinds == [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ]
    assert condition(status, "Complete")["message"] == "Reached expected number of succeeded pods"
    assert status["completionTime"] == condition(status, "Complete")["lastTransitionTime"]
    pods = await pods_of(client, "work")
    assert len(pods) == 5
    assert not any(pod["metadata"].get("finalizers") for pod in pods)
    reasons = [reason for reason, _ in await events_of(client, "work")]
    assert reasons.count("SuccessfulCreate") == 5
    assert ("Completed", "Job completed") in await events_of(client, "work")


async def test_an_indexed_job_gives_every_index_a_pod(client: Client) -> None:
    spec: Any = {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}
    await client.create(JOBS, job("ranks", **spec), "default")
    status = await wait_ended(client, "ranks")
    assert (status["succeeded"], status["completedIndexes"]) == (4, "0-3")
    for index, pod in enumerate(
        sorted(await pods_of(client, "ranks"), key=lambda each: each["metadata"]["name"])
    ):
        assert pod["metadata"]["name"].startswith(f"ranks-{index}-")
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == str(index)
        assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == str(
            index
        )
        assert pod["spec"]["hostname"] == f"ranks-{index}"
        (variable,) = pod["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"


async def test_failures_are_retried_with_back_off_until_the_limit(client: Client) -> None:
    await client.create(JOBS, job("doomed", seconds=1, code=3, backoffLimit=2), "default")
    start = asyncio.get_running_loop().time()
    status = await wait_ended(client, "doomed")
    elapsed = asyncio.get_running_loop().time() - start
    assert 30 < elapsed < 45
    assert status["failed"] == 3
    failed = condition(status, "Failed")
    assert (failed["reason"], failed["message"]) == (
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    )
    assert condition(status, "FailureTarget")["reason"] == "BackoffLimitExceeded"
    assert "completionTime" not in status


async def test_a_job_that_takes_too_long_is_ended(client: Client) -> None:
    spec: Any = {"activeDeadlineSeconds": 20, "parallelism": 3, "completions": 3}
    await client.create(JOBS, job("slow", seconds=1000, **spec), "default")
    status = await wait_ended(client, "slow")
    assert condition(status, "Failed")["reason"] == "DeadlineExceeded"
    assert (status["failed"], status["terminating"]) == (3, 0)
    assert await pods_of(client, "slow") == []


async def test_suspending_deletes_pods_and_resuming_recreates_them(client: Client) -> None:
    await client.create(JOBS, job("nap", seconds=30, parallelism=2, completions=2), "default")

    async def both_run() -> bool:
        return (await status_of(client, "nap")).get("ready") == 2

    await wait_for_condition(both_run)
    await client.patch(JOBS, "nap", {"spec": {"suspend": True}}, "default")
    await advance_time(10)
    status = await status_of(client, "nap")
    assert condition(status, "Suspended")["reason"] == "JobSuspended"
    assert (status.get("active"), "startTime" in status, status.get("failed")) == (
        None,
        False,
        None,
    )
    assert await pods_of(client, "nap") == []
    await client.patch(JOBS, "nap", {"spec": {"suspend": False}}, "default")
    status = await wait_ended(client, "nap")
    assert status["succeeded"] == 2
    assert [each["reason"] for each in status["conditions"] if each["type"] == "Suspended"] == [
        "JobResumed"
    ]
    output = await events_of(client, "nap")
    assert ("Suspended", "Job suspended") in output
    assert ("Resumed", "Job resumed") in output


async def test_an_exit_code_can_fail_the_whole_job(client: Client) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    spec: Any = {"podFailurePolicy": {"rules": [rule]}, "parallelism": 2, "completions": 2}
    await client.create(JOBS, job("fatal", seconds=3, code=42, **spec), "default")
    status = await wait_ended(client, "fatal")
    failed = condition(status, "Failed")
    assert failed["reason"] == "PodFailurePolicy"
    assert "failed with exit code 42 matching FailJob rule at index 0" in failed["message"]


async def test_an_index_that_fails_too_often_does_not_stop_the_others(client: Client) -> None:
    spec: Any = {
        "completions": 2,
        "parallelism": 2,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 1,
    }
    await client.create(JOBS, job("some", seconds=2, code=1, **spec), "default")
    status = await wait_ended(client, "some")
    assert condition(status, "Failed")["reason"] == "FailedIndexes"
    assert (status["failed"], status["failedIndexes"], status.get("completedIndexes")) == (
        4,
        "0,1",
        None,
    )


async def test_success_policy_completes_the_job(client: Client) -> None:
    spec: Any = {
        "completions": 3,
        "parallelism": 1,
        "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0-1"}]},
    }
    await client.create(JOBS, job("enough", seconds=2, **spec), "default")
    status = await wait_ended(client, "enough")
    assert condition(status, "Complete")["reason"] == "SuccessPolicy"
    assert condition(status, "Complete")["message"] == "Matched rules at index 0"
    assert (status["completedIndexes"], status.get("failed")) == ("0,1", None)


async def test_deleting_a_job_deletes_its_pods(client: Client) -> None:
    await client.create(JOBS, job("brief", seconds=1000, parallelism=3, completions=3), "default")
    await advance_time()
    await client.delete(JOBS, "brief", "default", propagation_policy="Foreground")
    await wait_deleted(client, JOBS, "brief")
    assert await pods_of(client, "brief") == []


async def test_pods_of_an_orphaning_delete_lose_the_finalizer(client: Client) -> None:
    await client.create(JOBS, job("left", seconds=1000), "default")
    await advance_time()
    await client.delete(JOBS, "left", "default", propagation_policy="Orphan")
    await wait_deleted(client, JOBS, "left")
    await advance_time()
    (pod,) = await pods_of(client, "left")
    assert "finalizers" not in pod["metadata"]
    assert "ownerReferences" not in pod["metadata"]


async def test_a_job_of_another_controller_is_left_alone(client: Client) -> None:
    await client.create(JOBS, job("theirs", managedBy="example.com/queue"), "default")
    await advance_time(20)
    assert await status_of(client, "theirs") == {}
    assert await pods_of(client, "theirs") == []


async def test_an_unchanged_job_is_not_written(client: Client) -> None:
    await client.create(JOBS, job("calm", seconds=1000), "default")
    await advance_time(30)
    before = await find(client, JOBS, "calm")
    await advance_time(300)
    assert await find(client, JOBS, "calm") == before
