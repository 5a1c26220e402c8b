"""Faults of simulated nodes: by script, at random, by annotation; and how they end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from kilonova.api.nodes.simulated_faults import (
    format_lost_gpus,
    parse_faults,
    parse_lost_gpus,
)
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.simnodes.fleet.model import (
    FailureRates,
    Fleet,
    GpuSpec,
    NodeGroup,
    ScriptStep,
    ZoneFailures,
)
from tests.local.embedded_cluster import (
    EVENTS,
    NODES,
    PODS,
    advance_time,
    find,
    pod,
    run_cluster,
    virtual_time,
    wait_for_condition,
)

pytestmark = virtual_time

GPU = "nvidia.com/gpu"
H100 = GpuSpec("NVIDIA-H100-80GB-HBM3", 8)
BUDGETS = unstructured_resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def fleet(
    *script: ScriptStep, count: int = 3, zones: tuple[str, ...] = ("zone-a",), **group: Any
) -> Fleet:
    made: Any = {"start": "1s", "stop": "1s", "gpu": H100, "zones": zones, **group}
    return Fleet((NodeGroup("n", count, **made),), script=script)


@asynccontextmanager
async def simulated_cluster(fleet: Fleet) -> AsyncGenerator[Client]:
    async with run_cluster(fleet=fleet) as cluster:
        yield cluster.client("test")


def trainer(name: str, gpus: int = 4, node: str = "n-0", **spec: Any) -> Any:
    made = pod(name, nodeName=node, **spec)
    made["spec"]["containers"][0]["resources"] = {"limits": {GPU: gpus}}
    return made


async def allocatable(client: Client, node: str = "n-0") -> int:
    return int((await client.get(NODES, node))["status"]["allocatable"][GPU])


async def ready(client: Client, node: str) -> str:
    found = (await client.get(NODES, node))["status"]["conditions"]
    return next(each["status"] for each in found if each["type"] == "Ready")


async def restarts(client: Client, name: str) -> int:
    live = await client.get(PODS, name, "default")
    return sum(each["restartCount"] for each in live["status"].get("containerStatuses", ()))


async def running_pod(client: Client, body: Any) -> None:
    await client.create(PODS, body, "default")
    name = body["metadata"]["name"]

    async def runs() -> bool:
        return (await find(client, PODS, name))["status"].get("phase") == "Running"

    await wait_for_condition(runs)


async def annotate(client: Client, node: str, **faults: str | None) -> None:
    named = {f"sim.kilonova.dev/{k.replace('_', '-')}": v for k, v in faults.items()}
    await client.patch(NODES, node, {"metadata": {"annotations": named}})


def is_ready(status: Any) -> bool:
    return {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"


async def reasons(client: Client, about: str) -> list[str]:
    events = (await client.list(EVENTS)).items
    return [each["reason"] for each in events if each["involvedObject"]["name"] == about]


async def test_pods_restart_after_a_node_outage() -> None:
    step = ScriptStep("60s", "node-outage", "n-0", "120s")
    async with simulated_cluster(fleet(step)) as client:
        await running_pod(client, trainer("a"))
        await advance_time(150)
        assert await ready(client, "n-0") == "Unknown"
        assert await ready(client, "n-1") == "True"
        live = await client.get(PODS, "a", "default")
        assert {c["type"]: c["status"] for c in live["status"]["conditions"]}["Ready"] == "False"
        await advance_time(60)
        assert await ready(client, "n-0") == "True"
        assert await restarts(client, "a") == 1
        live = await client.get(PODS, "a", "default")
        assert {c["type"]: c["status"] for c in live["status"]["conditions"]}["Ready"] == "True"
        node = await client.get(NODES, "n-0")
        assert "sim.kilonova.dev/out" not in node["metadata"]["annotations"]
        assert not node["spec"].get("taints")


async def test_zone_outage_affects_only_that_zone() -> None:
    step = ScriptStep("10s", "zone-outage", "zone-b", "10m")
    async with simulated_cluster(fleet(step, count=6, zones=("zone-a", "zone-b"))) as client:
        await advance_time(100)
        states = [await ready(client, f"n-{number}") for number in range(6)]
        assert states == ["True"] * 3 + ["Unknown"] * 3
        await advance_time(700)
        assert [await ready(client, f"n-{number}") for number in range(6)] == ["True"] * 6


async def test_lost_gpu_crashes_its_pod_and_reduces_allocatable() -> None:
    step = ScriptStep("30s", "gpu-lost", "n-0/2", "10m")
    async with simulated_cluster(fleet(step)) as client:
        await running_pod(client, trainer("first", 4))
        await running_pod(client, trainer("second", 4))
        await advance_time(35)
        assert await allocatable(client) == 7
        node = await client.get(NODES, "n-0")
        assert node["status"]["capacity"][GPU] == "8"
        lost = (await client.get(PODS, "first", "default"))["status"]
        assert (lost["phase"], lost["reason"]) == ("Running", "UnhealthyDevices")
        assert lost["message"] == "unhealthy devices of nvidia.com/gpu: 2"
        (container,) = lost["containerStatuses"]
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["allocatedResourcesStatus"] == [
            {
                "name": GPU,
                "resources": [
                    {"resourceID": "0", "health": "Healthy"},
                    {"resourceID": "1", "health": "Healthy"},
                    {"resourceID": "2", "health": "Unhealthy"},
                    {"resourceID": "3", "health": "Healthy"},
                ],
            }
        ]
        assert not is_ready(lost)
        assert await restarts(client, "second") == 0
        assert "XidError" in await reasons(client, "n-0")
        await advance_time(10)
        lost = (await client.get(PODS, "first", "default"))["status"]
        assert (lost["phase"], lost["reason"]) == ("Failed", "UnexpectedAdmissionError")
        assert "Requested: 4, Available: 7" in lost["message"]
        assert lost["message"].endswith("; unhealthy devices of nvidia.com/gpu: 2")
        assert not is_ready(lost)
        assert "UnexpectedAdmissionError" in await reasons(client, "first")
        await advance_time(600)
        assert await allocatable(client) == 8
        assert (await client.get(PODS, "first", "default"))["status"]["phase"] == "Failed"


async def test_a_pod_runs_again_on_gpus_that_are_back_in_time() -> None:
    step = ScriptStep("30s", "gpu-lost", "n-0/2", "5s")
    async with simulated_cluster(fleet(step)) as client:
        await running_pod(client, trainer("p", 4))
        await advance_time(32)
        assert not is_ready((await client.get(PODS, "p", "default"))["status"])
        await advance_time(15)
        status = (await client.get(PODS, "p", "default"))["status"]
        assert is_ready(status)
        assert "message" not in status
        assert "allocatedResourcesStatus" not in status["containerStatuses"][0]
        assert await restarts(client, "p") == 1


async def test_gpus_lost_in_an_outage_fail_the_pod_when_the_machine_is_back() -> None:
    async with simulated_cluster(fleet()) as client:
        await running_pod(client, trainer("p", 8))
        await annotate(client, "n-0", out="true")
        await advance_time()
        await annotate(client, "n-0", lost_gpus="7")
        await advance_time()
        await annotate(client, "n-0", out=None)
        await advance_time(20)
        status = (await client.get(PODS, "p", "default"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")


async def test_a_pod_that_never_restarts_fails_with_its_gpu() -> None:
    async with simulated_cluster(fleet()) as client:
        await running_pod(client, trainer("p", 8, restartPolicy="Never"))
        await annotate(client, "n-0", lost_gpus="7")
        await advance_time()
        status = (await client.get(PODS, "p", "default"))["status"]
        assert status["phase"] == "Failed"
        (devices,) = status["containerStatuses"][0]["allocatedResourcesStatus"]
        assert devices["resources"][7] == {"resourceID": "7", "health": "Unhealthy"}


async def test_a_pod_with_too_few_gpus_is_rejected_by_its_node() -> None:
    async with simulated_cluster(fleet()) as client:
        await annotate(client, "n-0", lost_gpus="0,5")
        await advance_time()
        assert await allocatable(client) == 6
        await client.create(PODS, trainer("big", 8), "default")
        await advance_time()
        live = await client.get(PODS, "big", "default")
        assert live["status"]["phase"] == "Failed"
        assert live["status"]["reason"] == "UnexpectedAdmissionError"
        assert "Requested: 8, Available: 6" in live["status"]["message"]


async def test_no_gpu_is_held_by_two_pods() -> None:
    async with simulated_cluster(fleet()) as client:
        for number in range(4):
            await running_pod(client, trainer(f"p{number}", 2))
        for gpu, name in ((0, "p0"), (3, "p1"), (5, "p2"), (6, "p3")):
            await annotate(client, "n-0", xid=f"31@{gpu}")
            await advance_time()
            assert await restarts(client, name) == 1
        assert [await restarts(client, f"p{number}") for number in range(4)] == [1] * 4


async def test_an_annotated_xid_is_applied_once_and_removed() -> None:
    async with simulated_cluster(fleet()) as client:
        await running_pod(client, trainer("a", 8, restartPolicy="Never"))
        await annotate(client, "n-0", xid="48@7")
        await advance_time()
        live = await client.get(PODS, "a", "default")
        assert live["status"]["phase"] == "Failed"
        assert live["status"]["message"] == "GPU 7: XID 48: double-bit ECC error"
        node = await client.get(NODES, "n-0")
        assert "sim.kilonova.dev/xid" not in node["metadata"].get("annotations", {})
        assert await allocatable(client) == 8, "the GPU itself is well"


async def test_failed_image_pulls_are_retried() -> None:
    step = ScriptStep("0s", "pull-errors", "n-0", "60s")
    async with simulated_cluster(fleet(step)) as client:
        await advance_time(1)
        await client.create(PODS, pod("a", nodeName="n-0"), "default")

        async def waits(reason: str) -> bool:
            live = await find(client, PODS, "a")
            states = live["status"].get("containerStatuses", ())
            return any(each["state"].get("waiting", {}).get("reason") == reason for each in states)

        await wait_for_condition(lambda: waits("ErrImagePull"))
        await wait_for_condition(lambda: waits("ImagePullBackOff"))
        assert (await find(client, PODS, "a"))["status"]["phase"] == "Pending"

        async def runs() -> bool:
            return (await find(client, PODS, "a"))["status"]["phase"] == "Running"

        await wait_for_condition(runs, within=200)
        assert {"Failed", "BackOff"} <= set(await reasons(client, "a"))


async def test_a_pod_may_ask_for_an_image_that_does_not_exist() -> None:
    async with simulated_cluster(fleet()) as client:
        metadata = {"annotations": {"sim.kilonova.dev/image-pull": "error"}}
        await client.create(PODS, pod("a", nodeName="n-0", metadata=metadata), "default")
        await advance_time(3600)
        assert (await find(client, PODS, "a"))["status"]["phase"] == "Pending"
        await client.delete(PODS, "a", "default")
        await advance_time(10)
        assert await find(client, PODS, "a") is None


async def test_a_pull_takes_its_time_before_the_start() -> None:
    async with simulated_cluster(fleet(pull="30s")) as client:
        await client.create(PODS, pod("a", nodeName="n-0"), "default")
        await advance_time(29)
        assert (await find(client, PODS, "a"))["status"]["phase"] == "Pending"
        await advance_time(4)
        assert (await find(client, PODS, "a"))["status"]["phase"] == "Running"


async def test_drained_node_is_emptied_and_uncordoned() -> None:
    step = ScriptStep("30s", "drain", "n-0", "5m")
    async with simulated_cluster(fleet(step)) as client:
        await running_pod(client, trainer("a"))
        await advance_time(40)
        assert await find(client, PODS, "a") is None
        assert (await client.get(NODES, "n-0"))["spec"]["unschedulable"] is True
        await advance_time(300)
        assert not (await client.get(NODES, "n-0"))["spec"].get("unschedulable")


async def test_random_faults_never_assign_a_gpu_twice() -> None:
    failures = FailureRates(
        pod_start=0.05,
        image_pull=0.05,
        pod_mtbf="20m",
        node_mtbf="1h",
        outage="3m",
        gpu_mtbf="20h",
        gpu_outage="10m",
        xid_interval="30h",
    )
    group = NodeGroup("n", 6, gpu=H100, zones=("a", "b"), failures=failures)
    stormy = Fleet((group,), seed=5, zone_failures=ZoneFailures("3h", "4m"))
    async with simulated_cluster(stormy) as client:
        for number in range(20):
            await client.create(PODS, trainer(f"p{number}", 2, node=""), "default")
        await asyncio.sleep(2 * 3600)
        seen = {each["reason"] for each in (await client.list(EVENTS)).items}
        assert "NodeNotReady" in seen
        for node in (await client.list(NODES)).items:
            used = sum(
                int(each["spec"]["containers"][0]["resources"]["limits"][GPU])
                for each in (await client.list(PODS, "default")).items
                if each["spec"].get("nodeName") == node["metadata"]["name"]
                and each["status"]["phase"] == "Running"
            )
            assert used <= 8


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, (False, False, set[int](), None)),
        ({"out": "true"}, (True, False, set[int](), None)),
        ({"out": "false"}, (False, False, set[int](), None)),
        ({"out": "2026-01-01T00:01:00Z"}, (True, False, set[int](), None)),
        ({"out": "2025-12-31T23:59:00Z"}, (False, False, set[int](), None)),
        ({"out": "yes please"}, (False, False, set[int](), None)),
        ({"lost-gpus": "0, 3,x,-1"}, (False, False, {0, 3}, None)),
        (
            {"lost-gpus": "0@2026-01-01T00:01:00Z,1@2025-01-01T00:00:00Z"},
            (False, False, {0}, None),
        ),
        ({"xid": "79@3", "pull-errors": "true"}, (False, True, set[int](), (79, 3))),
        ({"xid": "79"}, (False, False, set[int](), None)),
    ],
)
async def test_annotations_are_parsed(annotations: dict[str, str], expected: Any) -> None:
    named = {f"sim.kilonova.dev/{name}": value for name, value in annotations.items()}
    found = parse_faults(named, NOW)
    assert (found.is_out, found.pull_errors, set(found.lost_gpus), found.xid) == expected


async def test_lost_gpus_are_written_as_they_are_read() -> None:
    lost = {3: NOW, 0: None}
    assert parse_lost_gpus(format_lost_gpus(lost)) == lost
