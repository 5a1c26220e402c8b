"""Containers of simulated pods that keep ending, in virtual time."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from kilonova.api.times import parse_time
from kilonova.kube import Client
from kilonova.local.cluster import Cluster
from kilonova.local.nodes import Fleet
from kilonova.local.nodes.fleet import NodeGroup
from tests.local.embedded_cluster import EVENTS, NODES, PODS, eventually, find, pod, running
from tests.local.nodes.simulations import simulation

pytestmark = pytest.mark.looptime
FLEET = Fleet(nodes=(NodeGroup("n", start="2s", stop="1s"),))


def played() -> AbstractAsyncContextManager[Cluster]:
    return running(fleet=FLEET)


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


async def until_it_waits(client: Client) -> Any:
    async def waits() -> bool:
        return "waiting" in (await container(client))["state"]

    await eventually(waits, within=600, every=0.5)
    return await find(client, PODS, "p")


@pytest.mark.parametrize(("code", "policy"), [(3, "Always"), (3, "OnFailure"), (0, "Always")])
async def test_what_keeps_ending_starts_later_and_later(code: int, policy: str) -> None:
    async with played() as cluster:
        client = cluster.client("test")
        await client.create(PODS, ending(30, code, policy), "default")
        assert await pauses(client, 8) == [0, 10, 20, 40, 80, 160, 300, 300]


async def test_what_ran_for_ten_minutes_starts_at_once() -> None:
    async with played() as cluster:
        client = cluster.client("test")
        await client.create(PODS, ending(700), "default")
        assert await pauses(client, 3) == [0, 0, 0]


async def test_what_waits_says_so() -> None:
    async with played() as cluster:
        client = cluster.client("test")
        await client.create(PODS, ending(30), "default")
        found = await until_it_waits(client)
        status, name = found["status"], f"p_default({found['metadata']['uid']})"
        assert status["phase"] == "Running"
        assert status["podIP"] == "10.128.0.1"
        ready = {each["type"]: each["status"] for each in status["conditions"]}
        assert (ready["Ready"], ready["Initialized"]) == ("False", "True")
        [told] = status["containerStatuses"]
        assert told["state"]["waiting"] == {
            "reason": "CrashLoopBackOff",
            "message": f"back-off 10s restarting failed container=main pod={name}",
        }
        assert (told["ready"], told["restartCount"]) == (False, 1)
        assert told["lastState"]["terminated"]["exitCode"] == 3
        text = b"".join([chunk async for chunk in client.logs("p", "default")]).decode()
        assert text.splitlines()[-1] == "simulated container main ended with exit code 3"
        await asyncio.sleep(2)
        events = {each["reason"]: each for each in (await client.list(EVENTS, "default")).items}
        assert events["BackOff"]["type"] == "Warning"
        assert events["BackOff"]["message"] == (
            f"Back-off restarting failed container main in pod {name}"
        )


async def test_a_pod_that_waits_can_be_deleted() -> None:
    async with played() as cluster:
        client = cluster.client("test")
        await client.create(PODS, ending(30), "default")
        await until_it_waits(client)
        await client.delete(PODS, "p", "default")
        await asyncio.sleep(20)
        assert await find(client, PODS, "p") is None


async def test_a_new_process_starts_what_waits_and_keeps_how_it_ended() -> None:
    async with running() as cluster:
        client = cluster.client("test")
        async with simulation(client, FLEET):
            await client.create(PODS, ending(30), "default")
            await until_it_waits(client)
        await asyncio.sleep(100)
        assert "waiting" in (await container(client))["state"]
        async with simulation(client, FLEET):
            await asyncio.sleep(1)
            told = await container(client)
            assert "running" in told["state"]
            assert told["restartCount"] == 2
            assert told["lastState"]["terminated"]["exitCode"] == 3


async def test_what_waits_on_a_machine_that_was_out_starts_when_it_is_back() -> None:
    async with played() as cluster:
        client = cluster.client("test")
        await client.create(PODS, ending(30), "default")
        await until_it_waits(client)
        for out in ("true", None):
            body = {"metadata": {"annotations": {"sim.kilonova.dev/out": out}}}
            await client.patch(NODES, "n-0", body)
            await asyncio.sleep(20)
        told = await container(client)
        assert ("running" in told["state"], told["restartCount"]) == (True, 2)
        assert told["lastState"]["terminated"]["exitCode"] == 3, "it ended before"
