"""Workloads avoid nodes on which they failed."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kilonova.api.meta import Condition, Metadata, OwnerReference
from kilonova.api.times import format_rfc3339
from kilonova.kube import Client
from kilonova.scheduler.failures.pod_failures import (
    PodFailure,
    detect_failure,
    nodes_to_avoid,
    workload_of,
)
from kilonova.scheduler.objects.core_v1 import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import (
    NODES,
    PODS,
    START_TIME,
    LoopClock,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.consolidation import is_placed, run_replica_set
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    embedded_cluster,
    fleet,
    nodes_by_pod,
    pod,
    running_scheduler,
)

NOW = START_TIME.timestamp() + 3600


def ended(exit_code: int, after: float) -> PodStatus:
    begun, end = format_rfc3339(START_TIME), format_rfc3339(START_TIME + timedelta(seconds=after))
    state = ContainerState(ContainerStateTerminated(exit_code, begun, end))
    return PodStatus(phase="Failed", container_statuses=(ContainerStatus(state),))


def disrupted(reason: str) -> PodStatus:
    condition = Condition(
        "DisruptionTarget", "True", reason, last_transition_time=format_rfc3339(START_TIME)
    )
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
def test_detect_failure(status: PodStatus, sick: bool, by_node: bool | None) -> None:
    one = Pod(Metadata("p", "u", "1", "ns"), PodSpec(node_name="n"), status)
    found = detect_failure(one, NOW, has_unhealthy_gpu=sick)
    assert (None if found is None else found.is_node_fault) == by_node


@pytest.mark.parametrize(
    ("failures", "nodes"),
    [
        (
            [
                PodFailure("a", NOW - 10, is_node_fault=True),
                PodFailure("b", NOW - 9, is_node_fault=True),
            ],
            {"a", "b"},
        ),
        ([PodFailure("a", NOW - 700, is_node_fault=True)], set[str]()),
        (
            [
                PodFailure("b", NOW - 10, is_node_fault=False),
                PodFailure("a", NOW - 15, is_node_fault=False),
            ],
            {"a"},
        ),
        (
            [PodFailure(name, NOW - 70 * n, is_node_fault=False) for n, name in enumerate("abc")],
            set("abc"),
        ),
        (
            [PodFailure(name, NOW - 70 * n, is_node_fault=False) for n, name in enumerate("abcd")],
            set[str](),
        ),
    ],
    ids=["node fault", "expired", "first of one cause", "few nodes", "many nodes"],
)
def test_nodes_to_avoid(failures: list[PodFailure], nodes: set[str]) -> None:
    assert nodes_to_avoid(failures, NOW, 600) == nodes


def test_workload_of_pods() -> None:
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
async def test_next_pod_of_a_workload_avoids_the_node_after_a_restart() -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        async with running_scheduler(cluster):
            bad = await run_replica_set(client, "job", 4)
            await fail(client, "job")
            other = await is_placed(client, "job", other_than=bad)
            assert other != bad
            await client.create(PODS, pod("stranger", 8), "default")
            await wait_for_condition(are_all_placed(client, ["stranger"]))
            assert (await nodes_by_pod(client))["stranger"] == bad
            await client.delete(PODS, "stranger", "default", grace_period_seconds=0)
        await remove(client, "job")
        async with running_scheduler(cluster):
            assert await is_placed(client, "job") == other


@virtual_time
async def test_avoided_node_is_used_when_no_other_fits() -> None:
    async with embedded_cluster(fleet(1)) as cluster, running_scheduler(cluster):
        client = cluster.client("tester")
        bad = await run_replica_set(client, "job", 4)
        await fail(client, "job")
        assert await is_placed(client, "job") == bad


@virtual_time
async def test_failures_expire() -> None:
    settings = SchedulerSettings(avoid_failed_nodes_for=60)
    async with embedded_cluster(fleet(2)) as cluster, running_scheduler(cluster, settings):
        client = cluster.client("tester")
        bad = await run_replica_set(client, "job", 4)
        await fail(client, "job")
        other = await is_placed(client, "job", other_than=bad)
        await remove(client, "job")
        assert await is_placed(client, "job") == other
        await advance_time(60)
        await remove(client, "job")
        assert await is_placed(client, "job") == bad


@virtual_time
async def test_unhealthy_gpu_is_not_allocated() -> None:
    async with embedded_cluster(fleet(1, gpus=2)) as cluster, running_scheduler(cluster):
        client = cluster.client("tester")
        gpus = [{"uuid": "a", "healthy": False}, {"uuid": "b"}]
        text = msgspec.json.encode({"version": 1, "gpus": gpus}).decode()
        patch = {"metadata": {"annotations": {"gpu.kilonova.dev/topology": text}}}
        [node] = (await client.list(NODES)).items
        await client.patch(NODES, node["metadata"]["name"], patch)
        for name in ("one", "two"):
            await client.create(PODS, pod(name), "default")
        await wait_for_condition(lambda: _some_placed(client))
        found = [await client.get(PODS, name, "default") for name in ("one", "two")]
        given = [
            each["metadata"].get("annotations", {}).get("gpu.kilonova.dev/devices")
            for each in found
        ]
        assert sorted(each for each in given if each) == ["1"]


async def _some_placed(client: Client) -> bool:
    return any((await nodes_by_pod(client)).values())


async def names_of(client: Client, name: str) -> list[str]:
    """The running pods of a ReplicaSet."""
    listing = await client.list(PODS, "default", label_selector=f"app={name}")
    return [
        each["metadata"]["name"]
        for each in listing.items
        if each["status"].get("phase") not in ("Failed", "Succeeded")
    ]


async def remove(client: Client, name: str) -> None:
    """Delete the pod of a ReplicaSet, and wait for its replacement."""
    [one] = await names_of(client, name)
    await client.delete(PODS, one, "default", grace_period_seconds=0)

    async def replaced() -> bool:
        return bool(set(await names_of(client, name)) - {one})

    await wait_for_condition(replaced)


async def fail(client: Client, name: str) -> None:
    """Make the pod of a ReplicaSet fail, ten seconds after its start."""
    [one] = await names_of(client, name)
    now = LoopClock().now()
    end: dict[str, Any] = {"exitCode": 1, "startedAt": format_rfc3339(now - timedelta(seconds=10))}
    status = {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "main",
                "image": "example",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": {**end, "finishedAt": format_rfc3339(now)}},
            }
        ],
    }
    await client.patch(PODS, one, {"status": status}, "default", subresource="status")

    async def replaced() -> bool:
        return bool(set(await names_of(client, name)) - {one})

    await wait_for_condition(replaced)
