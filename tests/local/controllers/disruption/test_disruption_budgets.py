"""PodDisruptionBudgets: their statuses, and which evictions are allowed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import format_rfc3339
from kilonova.kube import Client, TooManyRequests
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.controllers.disruption.objects import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from kilonova.local.controllers.disruption.status import compute_status
from kilonova.local.objects.core import Pod, PodStatus
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.embedded_cluster import (
    PODS,
    advance_time,
    pod,
    run_cluster,
    virtual_time,
    wait_for_condition,
)

pytestmark = virtual_time

BUDGETS = unstructured_resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
SETS = unstructured_resource("apps", "v1", "replicasets", "ReplicaSet", True)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    group = NodeGroup("n", 2, cpu=64, memory="64Gi", stop="1s")
    async with run_cluster(fleet=Fleet(nodes=(group,))) as cluster:
        yield cluster.client("test")


def budget(name: str = "web", **spec: Any) -> Any:
    selector = {"matchLabels": {"app": "web"}}
    return {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}


def replica_set(replicas: int) -> Any:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "img"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


async def status_of(client: Client, name: str = "web") -> Any:
    return (await client.get(BUDGETS, name, "default")).get("status", {})


async def allowing(client: Client, count: int, name: str = "web") -> Any:
    async def allowed() -> bool:
        status = await status_of(client, name)
        return status.get("disruptionsAllowed") == count and status.get("currentHealthy", 0) > 0

    await wait_for_condition(allowed)
    return await status_of(client, name)


async def names(client: Client) -> list[str]:
    found = (await client.list(PODS, "default", label_selector="app=web")).items
    return [
        each["metadata"]["name"] for each in found if "deletionTimestamp" not in each["metadata"]
    ]


async def test_budget_allows_as_many_disruptions_as_healthy_pods_permit(client: Client) -> None:
    await client.create(SETS, replica_set(4), "default")
    await client.create(BUDGETS, budget(maxUnavailable="25%"), "default")
    status = await allowing(client, 1)
    assert (status["expectedPods"], status["desiredHealthy"], status["currentHealthy"]) == (4, 3, 4)
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "DisruptionAllowed",
        "True",
        "SufficientPods",
        "",
    )
    first, second, *_ = await names(client)
    await client.evict(first, "default")
    spent = await status_of(client)
    assert (spent["disruptionsAllowed"], list(spent["disruptedPods"])) == (0, [first])
    assert spent["conditions"][0]["reason"] == "InsufficientPods"
    with pytest.raises(TooManyRequests) as refusal:
        await client.evict(second, "default")
    assert refusal.value.blocked_by_disruption_budget
    await allowing(client, 1)
    await client.evict(second, "default")


async def test_concurrent_evictions_never_use_the_same_disruption(client: Client) -> None:
    await client.create(SETS, replica_set(4), "default")
    await client.create(BUDGETS, budget(minAvailable=3), "default")
    await allowing(client, 1)
    answers = await asyncio.gather(
        *(client.evict(name, "default") for name in await names(client)), return_exceptions=True
    )
    assert sum(answer is None for answer in answers) == 1
    assert sum(isinstance(answer, TooManyRequests) for answer in answers) == 3


async def test_unready_pod_can_be_evicted_if_enough_others_are_healthy(client: Client) -> None:
    await client.create(SETS, replica_set(3), "default")
    await client.create(BUDGETS, budget(minAvailable=2), "default")
    await allowing(client, 1)
    one, two, _ = await names(client)
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    for name in (one, two):
        await client.patch(PODS, name, unready, "default", subresource="status")
    await advance_time()
    with pytest.raises(TooManyRequests):
        await client.evict(one, "default")
    allow = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    await client.patch(BUDGETS, "web", allow, "default")
    await advance_time()
    await client.evict(one, "default")
    assert one not in await names(client)
    assert (await status_of(client)).get("disruptedPods") is None


async def test_unmanaged_pods_are_reported_and_a_kind_without_scale_fails(client: Client) -> None:
    job = unstructured_resource("batch", "v1", "jobs", "Job", True)
    template = {
        "metadata": {
            "labels": {"app": "web"},
            "annotations": {"sim.kilonova.dev/run-seconds": "3600"},
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]},
    }
    await client.create(job, {"metadata": {"name": "j"}, "spec": {"template": template}}, "default")
    await client.create(BUDGETS, budget(maxUnavailable=1), "default")
    await advance_time(10)
    status = await status_of(client)
    (condition,) = status["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "SyncFailed",
        "jobs.batch does not implement the scale subresource",
    )
    (name,) = await names(client)
    with pytest.raises(TooManyRequests):
        await client.evict(name, "default")


async def test_evicted_pod_that_stays_is_counted_again(client: Client) -> None:
    await client.create(PODS, pod("stays", metadata={"labels": {"app": "web"}}), "default")
    await client.create(BUDGETS, budget(minAvailable=0), "default")
    await allowing(client, 1)
    now = (await status_of(client))["conditions"][0]["lastTransitionTime"]
    listed = {"status": {"disruptedPods": {"stays": now}, "disruptionsAllowed": 0}}
    await client.patch(BUDGETS, "web", listed, "default", subresource="status")
    await advance_time(60)
    assert (await status_of(client))["disruptionsAllowed"] == 0
    await asyncio.sleep(90)
    status = await status_of(client)
    assert (status["disruptionsAllowed"], status.get("disruptedPods")) == (1, None)


async def test_stale_disruption_condition_is_reset(client: Client) -> None:
    await client.create(PODS, pod("calm"), "default")
    await advance_time()
    output = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": format_rfc3339(NOW),
    }
    found = await client.get(PODS, "calm", "default")
    conditions = [*found["status"]["conditions"], output]
    body = {"status": {"conditions": conditions}}
    await client.patch(PODS, "calm", body, "default", subresource="status")
    await asyncio.sleep(130)
    found = await client.get(PODS, "calm", "default")
    reported = [
        each for each in found["status"]["conditions"] if each["type"] == "DisruptionTarget"
    ]
    assert [each["status"] for each in reported] == ["False"]


def made(name: str, *, ready: bool = True, terminating: bool = False) -> Pod:
    condition = Condition("Ready", "True" if ready else "False")
    metadata = Metadata(
        name, name, "1", deletion_timestamp="2026-05-01T00:00:00Z" if terminating else None
    )
    return Pod(metadata, status=PodStatus("Running", conditions=(condition,)))


READY = [made("a"), made("b"), made("c")]


@pytest.mark.parametrize(
    ("spec", "pods", "scale", "expected", "desired", "healthy", "allowed"),
    [
        (PodDisruptionBudgetSpec(min_available=2), READY, 0, 3, 2, 3, 1),
        (PodDisruptionBudgetSpec(min_available=5), READY, 0, 3, 5, 3, 0),
        (PodDisruptionBudgetSpec(min_available="50%"), READY, 3, 3, 2, 3, 1),
        (PodDisruptionBudgetSpec(max_unavailable=1), READY, 3, 3, 2, 3, 1),
        (PodDisruptionBudgetSpec(max_unavailable="30%"), READY, 10, 10, 7, 3, 0),
        (PodDisruptionBudgetSpec(max_unavailable="34%"), READY, 3, 3, 1, 3, 2),
        (PodDisruptionBudgetSpec(max_unavailable=5), READY, 3, 3, 0, 3, 3),
        (PodDisruptionBudgetSpec(min_available=1), [], 0, 0, 1, 0, 0),
        (PodDisruptionBudgetSpec(min_available=0), [], 0, 0, 0, 0, 0),
        (PodDisruptionBudgetSpec(), READY, 0, 0, 0, 3, 0),
        (
            PodDisruptionBudgetSpec(min_available=1),
            [made("a"), made("b", ready=False)],
            0,
            2,
            1,
            1,
            0,
        ),
        (
            PodDisruptionBudgetSpec(min_available=1),
            [made("a"), made("b", terminating=True)],
            0,
            2,
            1,
            1,
            0,
        ),
    ],
)
def test_what_a_budget_allows(
    spec: PodDisruptionBudgetSpec,
    pods: list[Pod],
    scale: int,
    expected: int,
    desired: int,
    healthy: int,
    allowed: int,
) -> None:
    status, again = compute_status(
        PodDisruptionBudget(Metadata("x", "u", "1", generation=3), spec), pods, scale, NOW
    )
    assert (status.expected_pods, status.desired_healthy) == (expected, desired)
    assert (status.current_healthy, status.disruptions_allowed) == (healthy, allowed)
    assert (status.observed_generation, again) == (3, None)


@pytest.mark.parametrize(("ago", "kept", "again"), [(30, ["a"], 90.0), (130, [], None)])
def test_evicted_pod_is_not_counted_for_two_minutes(
    ago: int, kept: list[str], again: float | None
) -> None:
    listed = {"a": format_rfc3339(NOW - timedelta(seconds=ago)), "gone": format_rfc3339(NOW)}
    known = PodDisruptionBudget(
        Metadata("x", "u", "1"),
        PodDisruptionBudgetSpec(min_available=1),
        PodDisruptionBudgetStatus(disrupted_pods=listed),
    )
    status, after = compute_status(known, READY, 0, NOW)
    assert (list(status.disrupted_pods), after) == (kept, again)
    assert status.current_healthy == 3 - len(kept)
