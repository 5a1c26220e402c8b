"""Commands that look, and what the scheduler writes about queues, on both servers."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from kilonova.api.times import parse_time
from kilonova.cli.install import install_definitions
from kilonova.kube import Client
from kilonova.kube.resource import plain
from kilonova.scheduler.scheduler import build_scheduler
from kilonova.scheduler.settings import Settings
from tests.cli.command import Done, Kilonova
from tests.conftest import Api
from tests.local.embedded_cluster import NODES, PODS, eventually
from tests.scheduler.scheduling import pod
from tests.workloads.ground import parts_running

QUEUES = plain("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)


@asynccontextmanager
async def stage(api: Api) -> AsyncGenerator[Client]:
    """A node of 4 GPUs, a queue that may use 2 of them, and our scheduler; gone afterwards."""
    name = f"looked-{api.namespace}"
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "4"}
    async with api.client() as client:
        await install_definitions(client)
        status = {"allocatable": amounts, "capacity": amounts}
        await client.create(NODES, {"metadata": {"name": name}, "status": status})
        await client.create(
            QUEUES, {"metadata": {"name": name}, "spec": {"limit": {"nvidia.com/gpu": 2}}}
        )
        scheduler = build_scheduler(client, Settings(pace=0.2))
        async with parts_running(scheduler.parts, scheduler.leading):
            yield client
        for each in (await client.list(PODS, api.namespace)).items:
            await client.delete(PODS, each["metadata"]["name"], api.namespace, grace=0)
        await client.delete(NODES, name)
        await client.delete(QUEUES, name)


async def test_queues_and_reasons_are_told_on_any_server(api: Api, kilonova: Kilonova) -> None:
    queue = f"looked-{api.namespace}"

    async def said(*words: str) -> Done:
        where = ("--kubeconfig", str(api.access.kubeconfig))
        return await asyncio.to_thread(kilonova, *words, *where)

    async with stage(api) as client:
        for name in ("first", "second"):
            body = pod(name, 2)
            body["metadata"] |= {"namespace": api.namespace}
            body["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = queue
            await client.create(PODS, body, api.namespace)
        await eventually(_is_told(client, queue))
        one = json.loads((await said("queues", queue, "-o", "json")).out)
        assert (one["used"]["nvidia.com/gpu"], one["pendingGangs"]) == ("2", 1)
        answers = [
            json.loads((await said("why", name, "-n", api.namespace, "-o", "json")).out)
            for name in ("first", "second")
        ]
        assert sorted(each["state"] for each in answers) == ["Placed", "Waiting"]
        saved = await said("snapshot", "save", "it.json")
        assert saved.code == 0, saved.err


async def test_top_and_queues_count_the_same_on_any_server(api: Api, kilonova: Kilonova) -> None:
    """What is added is compared: other tests have left pods on the same server."""
    where = ("--kubeconfig", str(api.access.kubeconfig))

    async def counted() -> list[tuple[float, int]]:
        told = await asyncio.to_thread(kilonova, "queues", "default", "-o", "json", *where)
        drawn = await asyncio.to_thread(kilonova, "top", "--once", *where)
        queue = json.loads(told.out)
        rows = drawn.out.partition("QUEUES\n")[2].splitlines()
        (words,) = [row.split() for row in rows if row.split()[:1] == ["default"]]
        of_queues = float(queue["used"].get("nvidia.com/gpu", 0)), queue["pendingGangs"]
        return [of_queues, (float(words[2]), int(words[-2]))]

    async def settled() -> list[tuple[float, int]]:
        last = await counted()
        while (now := await counted()) != last:
            last = now
        return now

    async with stage(api) as client:
        before = await settled()
        for name, scheduler in (("ours", "kilonova-scheduler"), ("theirs", "default-scheduler")):
            for place in ({}, {"nodeName": f"looked-{api.namespace}"}):
                body = pod(f"{name}-{len(place)}", 1 if place else 64, **place)
                body["metadata"] |= {"namespace": api.namespace}
                body["spec"]["schedulerName"] = scheduler
                await client.create(PODS, body, api.namespace)
        after = await settled()
    added = [(now[0] - was[0], now[1] - was[1]) for was, now in zip(before, after, strict=True)]
    of_each = (2, 2) if api.server == "embedded" else (1, 1)
    assert added == [of_each, of_each]


async def test_why_tells_since_when_a_pod_stands_of_which_no_kubelet_tells(
    api: Api, kilonova: Kilonova
) -> None:
    where = ("-n", api.namespace, "-o", "json", "--kubeconfig", str(api.access.kubeconfig))

    async def since(name: str) -> float:
        done = await asyncio.to_thread(kilonova, "why", name, *where)
        return json.loads(done.out)["since"]

    async with stage(api) as client:
        for name in ("bound", "made-there"):
            body = pod(name, 1)
            body["metadata"] |= {"namespace": api.namespace}
            body["spec"]["nodeName"] = f"looked-{api.namespace}"
            made = await client.create(PODS, body, api.namespace)
        then = "2026-01-01T00:00:00Z"
        told = {"type": "PodScheduled", "status": "True", "lastTransitionTime": then}
        status = {"status": {"conditions": [told]}}
        await client.patch(PODS, "bound", status, api.namespace, subresource="status")
        assert await since("bound") == parse_time(then).timestamp()
        created = parse_time(made["metadata"]["creationTimestamp"])
        assert await since("made-there") == created.timestamp()


def _is_told(client: Client, queue: str) -> Callable[[], Awaitable[bool]]:
    async def told() -> bool:
        status = (await client.get(QUEUES, queue)).get("status", {})
        used = status.get("allocated", {}).get("nvidia.com/gpu")
        return (used, status.get("pendingGangs")) == ("2", 1)

    return told
