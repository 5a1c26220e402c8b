"""Containers of simulated pods that keep ending, in virtual time."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from kilonova.api.times import parse_time
from kilonova.kube import Client
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.simnodes import Fleet
from kilonova.local.simnodes.fleet.model import NodeGroup
from tests.local.embedded_cluster import (
    EVENTS,
    NODES,
    PODS,
    find,
    pod,
    run_cluster,
    virtual_time,
    wait_for_condition,
)
from tests.local.simnodes.simulation_helpers import running_simulation

pytestmark = virtual_time
FLEET = Fleet(nodes=(NodeGroup("n", start="2s", stop="1s"),))


def simulated() -> AbstractAsyncContextManager[EmbeddedCluster]:
    return run_cluster(fleet=FLEET)


def ending(after: int, code: int = 3, policy: str = "Always") -> Any:
    annotations = {
        "sim.kilonova.dev/run-seconds": str(after),
        "sim.kilonova.dev/exit-code": str(code),
    }
    spec = {"nodeName": "n-0", "restartPolicy": policy}
    return pod("p", metadata={"annotations": annotations}, **spec)


async def container(client: Client) -> Any:
    statuses = (await find(client, PODS, "p"))["status"].get("containerStatuses")
    return statuses[0] if statuses else {"state": {}, "restartCount": 0}


async def pauses(client: Client, count: int) -> list[int]:
    """The seconds before each of the first restarts, to the second."""
    found: dict[int, int] = {}
    while len(found) < count:
        seen = await container(client)
        if seen["restartCount"] and "running" in seen["state"]:
            begun = parse_time(seen["state"]["running"]["startedAt"])
            ended = parse_time(seen["lastState"]["terminated"]["finishedAt"])
            found[seen["restartCount"]] = round((begun - ended).total_seconds())
        await asyncio.sleep(5)
    return [found[number] for number in sorted(found)]


async def wait_for_backoff(client: Client) -> Any:
    async def waits() -> bool:
        return "waiting" in (await container(client))["state"]

    await wait_for_condition(waits, within=600, every=0.5)
    return await find(client, PODS, "p")


@pytest.mark.parametrize(("code", "policy"), [(3, "Always"), (3, "OnFailure"), (0, "Always")])
async def test_restarts_back_off(code: int, policy: str) -> None:
    async with simulated() as cluster:
        client = cluster.client("test")
        await client.create(PODS, ending(30, code, policy), "default")
        assert await pauses(client, 8) == [0, 10, 20, 40, 80, 160, 300, 300]


async def test_back_off_resets_after_ten_minutes() -> None:
    async with simulated() as cluster:
        client = cluster.client("test")
        await client.create(PODS, ending(700), "default")
        assert await pauses(client, 3) == [0, 0, 0]


async def test_waiting_container_reports_crash_loop_back_off() -> None:
    async with simulated() as cluster:
        client = cluster.client("test")
        await client.create(PODS, ending(30), "default")
        found = await wait_for_backoff(client)
        status, name = found["status"], f"p_default({found['metadata']['uid']})"
        assert status["phase"] == "Running"
        assert status["podIP"] == "10.128.0.1"
        ready = {each["type"]: each["status"] for each in status["conditions"]}
        assert (ready["Ready"], ready["Initialized"]) == ("False", "True")
        [reported] = status["containerStatuses"]
        assert reported["state"]["waiting"] == {
            "reason": "CrashLoopBackOff",
            "message": f"back-off 10s restarting failed container=main pod={name}",
        }
        assert (reported["ready"], reported["restartCount"]) == (False, 1)
        assert reported["lastState"]["terminated"]["exitCode"] == 3
        text = b"".join([chunk async for chunk in client.logs("p", "default")]).decode()
        assert text.splitlines()[-1] == "simulated container main ended with exit code 3"
        await asyncio.sleep(2)
        events = {each["reason"]: each for each in (await client.list(EVENTS, "default")).items}
        assert events["BackOff"]["type"] == "Warning"
        assert events["BackOff"]["message"] == (
            f"Back-off restarting failed container main in pod {name}"
        )


async def test_backing_off_pod_can_be_deleted() -> None:
    async with simulated() as cluster:
        client = cluster.client("test")
        await client.create(PODS, ending(30), "default")
        await wait_for_backoff(client)
        await client.delete(PODS, "p", "default")
        await asyncio.sleep(20)
        assert await find(client, PODS, "p") is None


async def test_new_process_restarts_backing_off_pods_and_keeps_last_state() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        async with running_simulation(client, FLEET):
            await client.create(PODS, ending(30), "default")
            await wait_for_backoff(client)
        await asyncio.sleep(100)
        assert "waiting" in (await container(client))["state"]
        async with running_simulation(client, FLEET):
            await asyncio.sleep(1)
            reported = await container(client)
            assert "running" in reported["state"]
            assert reported["restartCount"] == 2
            assert reported["lastState"]["terminated"]["exitCode"] == 3


async def test_backing_off_pod_restarts_after_a_node_outage() -> None:
    async with simulated() as cluster:
        client = cluster.client("test")
        await client.create(PODS, ending(30), "default")
        await wait_for_backoff(client)
        for out in ("true", None):
            body = {"metadata": {"annotations": {"sim.kilonova.dev/out": out}}}
            await client.patch(NODES, "n-0", body)
            await asyncio.sleep(20)
        reported = await container(client)
        assert ("running" in reported["state"], reported["restartCount"]) == (True, 2)
        assert reported["lastState"]["terminated"]["exitCode"] == 3, "it ended before"
