"""`kilonova queues`, `why`, `top` and `snapshot`, and queue statuses, on both servers."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kilonova.api.times import parse_time
from kilonova.cli.install import install_definitions
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.cli.command import CompletedCommand, Kilonova
from tests.conftest import Api
from tests.harness.queue_status import wait_for_queue_status
from tests.local.embedded_cluster import NODES, PODS, find, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import pod
from tests.workloads.workload_cluster import run_runnables

QUEUES = unstructured_resource("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)


@asynccontextmanager
async def scheduled_queue(api: Api) -> AsyncGenerator[Client]:
    """A node with 4 GPUs, a queue with a limit of 2, and our scheduler; all deleted afterwards."""
    name = f"queried-{api.namespace}"
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "4"}
    async with api.client() as client:
        await install_definitions(client)
        status = {"allocatable": amounts, "capacity": amounts}
        await client.create(NODES, {"metadata": {"name": name}, "status": status})
        await client.create(
            QUEUES, {"metadata": {"name": name}, "spec": {"limit": {"nvidia.com/gpu": 2}}}
        )
        scheduler = build_scheduler(client, SchedulerSettings(status_interval=0.2))
        async with run_runnables(scheduler.runnables, scheduler.leader_runnables):
            yield client
        for each in (await client.list(PODS, api.namespace)).items:
            await client.delete(
                PODS, each["metadata"]["name"], api.namespace, grace_period_seconds=0
            )
        await client.delete(NODES, name)
        await client.delete(QUEUES, name)


async def test_queues_and_reasons_on_both_servers(api: Api, kilonova: Kilonova) -> None:
    queue = f"queried-{api.namespace}"

    async def run(*words: str) -> CompletedCommand:
        where = ("--kubeconfig", str(api.access.kubeconfig))
        return await asyncio.to_thread(kilonova, *words, *where)

    async with scheduled_queue(api) as client:
        for name in ("first", "second"):
            body = pod(name, 2)
            body["metadata"] |= {"namespace": api.namespace}
            body["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = queue
            await client.create(PODS, body, api.namespace)
        await wait_for_queue_status(
            client, queue, allocated={"nvidia.com/gpu": "2"}, pendingGangs=1
        )
        one = json.loads((await run("queues", queue, "-o", "json")).out)
        assert (one["used"]["nvidia.com/gpu"], one["pendingGangs"]) == ("2", 1)
        answers = [
            json.loads((await run("why", name, "-n", api.namespace, "-o", "json")).out)
            for name in ("first", "second")
        ]
        assert sorted(each["state"] for each in answers) == ["Placed", "Unschedulable"]
        saved = await run("snapshot", "save", "it.json")
        assert saved.code == 0, saved.err


async def test_top_and_queues_show_the_status_on_any_server(api: Api, kilonova: Kilonova) -> None:
    where = ("--kubeconfig", str(api.access.kubeconfig))

    async def read_default() -> tuple[float, int]:
        status = (await client.get(QUEUES, "default"))["status"]
        used = status.get("allocated", {}).get("nvidia.com/gpu", "0")
        return float(used), status.get("pendingGangs", 0)

    async with scheduled_queue(api) as client:
        await wait_for_queue_status(client, "default")
        used, pending = await read_default()
        for name, scheduler in (("ours", "kilonova-scheduler"), ("theirs", "default-scheduler")):
            for place in ({}, {"nodeName": f"queried-{api.namespace}"}):
                body = pod(f"{name}-{len(place)}", 1 if place else 64, **place)
                body["metadata"] |= {"namespace": api.namespace}
                body["spec"]["schedulerName"] = scheduler
                await client.create(PODS, body, api.namespace)

        async def has_counted_our_pods() -> bool:
            return await read_default() == (used + 1, pending + 1)

        await wait_for_condition(has_counted_our_pods)
        listed = await asyncio.to_thread(kilonova, "queues", "default", "-o", "json", *where)
        top = await asyncio.to_thread(kilonova, "top", "--once", *where)
        queue = json.loads(listed.out)
        assert (float(queue["used"]["nvidia.com/gpu"]), queue["pendingGangs"]) == (
            used + 1,
            pending + 1,
        )
        rows = top.out.partition("QUEUES\n")[2].splitlines()
        (words,) = [row.split() for row in rows if row.split()[:1] == ["default"]]
        assert (float(words[2]), int(words[-2])) == (used + 1, pending + 1)


async def test_queues_without_a_scheduler_are_shown_as_not_observed(
    api: Api, kilonova: Kilonova
) -> None:
    name = f"unobserved-{api.namespace}"
    where = ("--kubeconfig", str(api.access.kubeconfig))
    async with api.client() as client:
        await install_definitions(client)
        if await find(client, QUEUES, "default"):
            await client.delete(QUEUES, "default")
        await client.create(QUEUES, {"metadata": {"name": name}})
        listed = await asyncio.to_thread(kilonova, "queues", "--no-headers", *where)
        assert listed.code == 0, listed.err
        assert "there is no queue 'default' yet: a running scheduler creates it" in listed.err
        rows = [line.split() for line in listed.out.splitlines()]
        assert [name, *["-"] * 6, "no", "(NotObserved)"] in rows
        one = await asyncio.to_thread(kilonova, "queues", name, *where)
        assert "Ready: no (NotObserved), not yet observed by a scheduler" in one.out
        await client.delete(QUEUES, name)


async def test_why_reports_when_a_pod_without_kubelet_status_was_bound(
    api: Api, kilonova: Kilonova
) -> None:
    where = ("-n", api.namespace, "-o", "json", "--kubeconfig", str(api.access.kubeconfig))

    async def since(name: str) -> float:
        done = await asyncio.to_thread(kilonova, "why", name, *where)
        return json.loads(done.out)["since"]

    async with scheduled_queue(api) as client:
        for name in ("bound", "made-there"):
            body = pod(name, 1)
            body["metadata"] |= {"namespace": api.namespace}
            body["spec"]["nodeName"] = f"queried-{api.namespace}"
            made = await client.create(PODS, body, api.namespace)
        then = "2026-01-01T00:00:00Z"
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": then}
        status = {"status": {"conditions": [condition]}}
        await client.patch(PODS, "bound", status, api.namespace, subresource="status")
        assert await since("bound") == parse_time(then).timestamp()
        created = parse_time(made["metadata"]["creationTimestamp"])
        assert await since("made-there") == created.timestamp()
