"""Workloads that keep off nodes on which they failed."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kilonova.api.meta import Condition, Metadata, OwnerReference
from kilonova.api.times import rfc3339
from kilonova.kube import Client
from kilonova.scheduler.failures import Failure, failure_of, nodes_to_avoid, workload_of
from kilonova.scheduler.objects import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Terminated,
)
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import (
    BEGIN,
    NODES,
    PODS,
    LoopClock,
    eventually,
    settle,
    virtual_time,
)
from tests.scheduler.moving import placed, run_set
from tests.scheduler.scheduling import a_cluster, all_placed, fleet, nodes_of, pod, scheduler_on

NOW = BEGIN.timestamp() + 3600


def ended(exit_code: int, after: float) -> PodStatus:
    begun, end = rfc3339(BEGIN), rfc3339(BEGIN + timedelta(seconds=after))
    state = ContainerState(Terminated(exit_code, begun, end))
    return PodStatus(phase="Failed", container_statuses=(ContainerStatus(state),))


def disrupted(reason: str) -> PodStatus:
    condition = Condition("DisruptionTarget", "True", reason, last_transition_time=rfc3339(BEGIN))
    return PodStatus(phase="Failed", conditions=(condition,))


@pytest.mark.parametrize(
    ("status", "sick", "by_node"),
    [
        (ended(1, 30), False, False),
        (ended(0, 30), False, None),
        (ended(1, 3600), False, None),
        (ended(1, 3600), True, True),
        (PodStatus(phase="Failed", reason="UnexpectedAdmissionError"), False, True),
        (PodStatus(phase="Failed", reason="OutOfcpu"), False, None),
        (disrupted("DeletionByTaintManager"), False, True),
        (disrupted("TerminationByKubelet"), False, True),
        (disrupted("EvictionByEvictionAPI"), True, None),
        (disrupted("PreemptionByScheduler"), False, None),
        (PodStatus(phase="Running"), True, None),
    ],
)
def test_who_is_to_blame(status: PodStatus, sick: bool, by_node: bool | None) -> None:
    one = Pod(Metadata("p", "u", "1", "ns"), PodSpec(node_name="n"), status)
    found = failure_of(one, NOW, sick=sick)
    assert (None if found is None else found.by_node) == by_node


@pytest.mark.parametrize(
    ("failures", "nodes"),
    [
        ([Failure("a", NOW - 10, by_node=True), Failure("b", NOW - 9, by_node=True)], {"a", "b"}),
        ([Failure("a", NOW - 700, by_node=True)], set[str]()),
        ([Failure("b", NOW - 10, by_node=False), Failure("a", NOW - 15, by_node=False)], {"a"}),
        ([Failure(name, NOW - 70 * n, by_node=False) for n, name in enumerate("abc")], set("abc")),
        ([Failure(name, NOW - 70 * n, by_node=False) for n, name in enumerate("abcd")], set[str]()),
    ],
    ids=["blamed", "long ago", "first of those that end together", "few", "its own fault"],
)
def test_which_nodes_are_avoided(failures: list[Failure], nodes: set[str]) -> None:
    assert nodes_to_avoid(failures, NOW, 600) == nodes


def test_whose_failures_count_together() -> None:
    owner = OwnerReference("apps/v1", "ReplicaSet", "r", "owner-uid", True)
    alone = Metadata("p", "u", "1", "ns")
    owned = msgspec.structs.replace(alone, owner_references=(owner,))
    member = msgspec.structs.replace(owned, labels={"grove.io/podgang": "g"})
    assert [workload_of(Pod(each)) for each in (alone, owned, member)] == [
        "ns/p",
        "owner-uid",
        "ns/g",
    ]


@virtual_time
async def test_the_next_pod_of_a_workload_goes_elsewhere_also_after_a_restart() -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        async with scheduler_on(cluster):
            bad = await run_set(client, "job", 4)
            await fail(client, "job")
            other = await placed(client, "job", other_than=bad)
            assert other != bad
            await client.create(PODS, pod("stranger", 8), "default")
            await eventually(all_placed(client, ["stranger"]))
            assert (await nodes_of(client))["stranger"] == bad
            await client.delete(PODS, "stranger", "default", grace=0)
        await remove(client, "job")
        async with scheduler_on(cluster):
            assert await placed(client, "job") == other


@virtual_time
async def test_a_bad_node_is_better_than_none() -> None:
    async with a_cluster(fleet(1)) as cluster, scheduler_on(cluster):
        client = cluster.client("tester")
        bad = await run_set(client, "job", 4)
        await fail(client, "job")
        assert await placed(client, "job") == bad


@virtual_time
async def test_failures_are_forgotten_after_a_time() -> None:
    settings = Settings(avoid_for=60)
    async with a_cluster(fleet(2)) as cluster, scheduler_on(cluster, settings):
        client = cluster.client("tester")
        bad = await run_set(client, "job", 4)
        await fail(client, "job")
        other = await placed(client, "job", other_than=bad)
        await remove(client, "job")
        assert await placed(client, "job") == other
        await settle(60)
        await remove(client, "job")
        assert await placed(client, "job") == bad


@virtual_time
async def test_a_gpu_that_is_not_healthy_is_given_to_nobody() -> None:
    async with a_cluster(fleet(1, gpus=2)) as cluster, scheduler_on(cluster):
        client = cluster.client("tester")
        gpus = [{"uuid": "a", "healthy": False}, {"uuid": "b"}]
        text = msgspec.json.encode({"version": 1, "gpus": gpus}).decode()
        patch = {"metadata": {"annotations": {"gpu.kilonova.dev/topology": text}}}
        [node] = (await client.list(NODES)).items
        await client.patch(NODES, node["metadata"]["name"], patch)
        for name in ("one", "two"):
            await client.create(PODS, pod(name), "default")
        await eventually(lambda: _some_placed(client))
        found = [await client.get(PODS, name, "default") for name in ("one", "two")]
        given = [
            each["metadata"].get("annotations", {}).get("gpu.kilonova.dev/devices")
            for each in found
        ]
        assert sorted(each for each in given if each) == ["1"]


async def _some_placed(client: Client) -> bool:
    return any((await nodes_of(client)).values())


async def names_of(client: Client, name: str) -> list[str]:
    """The pods of a set that run."""
    listing = await client.list(PODS, "default", labels=f"app={name}")
    return [
        each["metadata"]["name"]
        for each in listing.items
        if each["status"].get("phase") not in ("Failed", "Succeeded")
    ]


async def remove(client: Client, name: str) -> None:
    """Deletes the pod of a set, and waits until there is another."""
    [one] = await names_of(client, name)
    await client.delete(PODS, one, "default", grace=0)

    async def replaced() -> bool:
        return bool(set(await names_of(client, name)) - {one})

    await eventually(replaced)


async def fail(client: Client, name: str) -> None:
    """Has the pod of a set end with an error, ten seconds after it began."""
    [one] = await names_of(client, name)
    now = LoopClock().now()
    end: dict[str, Any] = {"exitCode": 1, "startedAt": rfc3339(now - timedelta(seconds=10))}
    status = {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "main",
                "image": "example",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": {**end, "finishedAt": rfc3339(now)}},
            }
        ],
    }
    await client.patch(PODS, one, {"status": status}, "default", subresource="status")

    async def replaced() -> bool:
        return bool(set(await names_of(client, name)) - {one})

    await eventually(replaced)
