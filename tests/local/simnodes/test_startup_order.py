"""The startup container of a clique's pods on simulated nodes, in virtual time."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.times import format_rfc3339
from kilonova.kube import Client
from kilonova.local.simnodes import Fleet
from kilonova.local.simnodes.fleet.model import GpuSpec, NodeGroup
from tests.local.embedded_cluster import (
    PODS,
    START_TIME,
    find,
    pod,
    run_cluster,
    virtual_time,
    wait_deleted,
)

pytestmark = virtual_time
FLEET = Fleet(nodes=(NodeGroup("n", gpu=GpuSpec("NVIDIA-H100-80GB-HBM3", 8, "80Gi"), start="2s"),))
RELEASE = {"metadata": {"annotations": {names.STARTUP_RELEASED: "true"}}}


def waiting_pod(name: str, *, after: list[Any] | None = None, **more: Any) -> Any:
    """A pod of a clique that starts after another."""
    inits = [
        {"name": "fetch", "image": "i"},
        {"name": names.STARTUP_CONTAINER, "image": "i"},
        *(after or ()),
    ]
    return pod(name, initContainers=inits, **more)


async def release(client: Client, name: str) -> None:
    await client.patch(PODS, name, RELEASE, "default")


def states(pod: Any, kind: str = "initContainerStatuses") -> dict[str, str]:
    return {each["name"]: next(iter(each["state"])) for each in pod["status"][kind]}


def conditions(pod: Any) -> dict[str, str]:
    return {each["type"]: each["status"] for each in pod["status"]["conditions"]}


async def test_a_pod_waits_in_its_startup_container() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        late = {"name": "late", "image": "i"}
        await client.create(PODS, waiting_pod("p", after=[late]), "default")
        await asyncio.sleep(3600)
        found = await find(client, PODS, "p")
        assert found["status"]["phase"] == "Pending"
        assert found["status"]["podIP"]
        assert states(found) == {"fetch": "terminated", "grove-initc": "running", "late": "waiting"}
        assert states(found, "containerStatuses") == {"main": "waiting"}
        [main] = found["status"]["containerStatuses"]
        assert main["state"]["waiting"] == {"reason": "PodInitializing"}
        assert conditions(found) == {
            "PodReadyToStartContainers": "True",
            "Initialized": "False",
            "Ready": "False",
            "ContainersReady": "False",
            "PodScheduled": "True",
        }


async def test_released_pod_starts_after_one_start_delay() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(PODS, waiting_pod("p"), "default")
        await asyncio.sleep(100)
        address = (await find(client, PODS, "p"))["status"]["podIP"]
        await release(client, "p")
        await asyncio.sleep(1.9)
        assert (await find(client, PODS, "p"))["status"]["phase"] == "Pending"
        await asyncio.sleep(0.2)
        found = await find(client, PODS, "p")
        assert found["status"]["phase"] == "Running"
        assert found["status"]["podIP"] == address
        assert states(found) == {"fetch": "terminated", "grove-initc": "terminated"}
        assert conditions(found)["Ready"] == "True"
        [main] = found["status"]["containerStatuses"]
        assert main["state"]["running"]["startedAt"] == format_rfc3339(
            START_TIME + timedelta(seconds=102)
        )


@pytest.mark.parametrize("moment", [0.0, 1.0, 1.999, 2.0, 2.001])
async def test_no_release_is_missed_whenever_it_comes(moment: float) -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(PODS, waiting_pod("p"), "default")
        await asyncio.sleep(moment)
        await release(client, "p")
        await asyncio.sleep(4.1)
        assert (await find(client, PODS, "p"))["status"]["phase"] == "Running"


async def test_pod_created_as_released_does_not_wait() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(PODS, waiting_pod("p", metadata=RELEASE["metadata"]), "default")
        await asyncio.sleep(2.1)
        assert (await find(client, PODS, "p"))["status"]["phase"] == "Running"


async def test_waiting_pod_holds_its_gpus_until_deleted() -> None:
    gpus = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(PODS, waiting_pod("p", containers=[gpus]), "default")
        await asyncio.sleep(10)
        await client.create(PODS, pod("q", containers=[gpus], nodeName="n-0"), "default")
        await asyncio.sleep(10)
        assert (await find(client, PODS, "q"))["status"]["reason"] == "UnexpectedAdmissionError"
        await client.delete(PODS, "p", "default")
        await wait_deleted(client, PODS, "p")
        await client.create(PODS, pod("r", containers=[gpus], nodeName="n-0"), "default")
        await asyncio.sleep(10)
        assert (await find(client, PODS, "r"))["status"]["phase"] == "Running"


async def test_pod_keeps_waiting_after_a_cluster_restart(tmp_path: Any) -> None:
    async with run_cluster(fleet=FLEET, data=tmp_path) as cluster:
        client = cluster.client("test")
        await client.create(PODS, waiting_pod("p"), "default")
        await client.create(PODS, waiting_pod("q"), "default")
        await asyncio.sleep(10)
        before = await find(client, PODS, "p")
        await release(client, "q")
    async with run_cluster(fleet=FLEET, data=tmp_path) as cluster:
        client = cluster.client("test")
        await asyncio.sleep(10)
        assert (await find(client, PODS, "p"))["status"] == before["status"]
        assert (await find(client, PODS, "q"))["status"]["phase"] == "Running"
        await release(client, "p")
        await asyncio.sleep(2.1)
        assert (await find(client, PODS, "p"))["status"]["phase"] == "Running"
