"""`kilonova fit` and `kilonova alloc` on a cluster, on both servers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kilonova.api.inference_engine import names
from kilonova.artifacts.builds import Build, BuildAccelerator, save_build
from kilonova.cli.install import install_definitions
from kilonova.kube import Client
from tests.cli.command import CompletedCommand, Kilonova
from tests.conftest import Api
from tests.local.embedded_cluster import NODES, PODS
from tests.scheduler.harness.embedded_scheduler import pod

RACK = "kilonova.dev/rack"
AMOUNTS = {"cpu": "8", "memory": "32Gi", "pods": "10"}


@asynccontextmanager
async def two_nodes(api: Api, resource: str) -> AsyncGenerator[Client]:
    """Nodes of one rack with four accelerators each: an agent has one on the first, the second is
    cordoned; deleted afterwards."""
    nodes = [f"{api.namespace}-{number}" for number in range(2)]
    async with api.client() as client:
        await install_definitions(client)
        amounts = {**AMOUNTS, resource: "4"}
        for number, name in enumerate(nodes):
            metadata = {"name": name, "labels": {RACK: f"rack-of-{api.namespace}"}}
            status = {"allocatable": amounts, "capacity": amounts}
            await client.create(NODES, {"metadata": metadata, "status": status})
            # An API server taints a new node until its kubelet is ready.
            spec = {"taints": None, "unschedulable": bool(number) or None}
            await client.patch(NODES, name, {"spec": spec})
        agent = pod("agent", 0)
        agent["metadata"] |= {"namespace": api.namespace}
        agent["metadata"]["labels"][names.MODEL_INSTANCE] = "llama"
        agent["spec"]["nodeName"] = nodes[0]
        agent["spec"]["containers"][0]["resources"] = {"limits": {resource: 1}}
        await client.create(PODS, agent, api.namespace)
        try:
            yield client
        finally:
            await client.delete(PODS, "agent", api.namespace, grace_period_seconds=0)
            for name in nodes:
                await client.delete(NODES, name)


async def test_picture_and_allocation_on_both_servers(api: Api, kilonova: Kilonova) -> None:
    resource = f"example.com/{api.namespace}"
    accelerator = BuildAccelerator(resource=resource)
    save_build(
        Build(id="it", model="it", agents=2, accelerator=accelerator), kilonova.home / "builds"
    )

    async def run(*words: str) -> CompletedCommand:
        where = ("--kubeconfig", str(api.access.kubeconfig), "-n", api.namespace)
        return await asyncio.to_thread(kilonova, *words, "--builds", "builds", *where)

    async with two_nodes(api, resource):
        shown = await run("fit", "--build", "it", "--width", "120")
        assert shown.code == 0, shown.err
        lines = shown.out.splitlines()
        assert lines[0].startswith(f"{resource}: 2 nodes, 3 of 8 free, 4 not schedulable")
        assert f"A##· {api.namespace}-0" in shown.out
        assert f"---- {api.namespace}-1 Cordoned" in shown.out
        assert f"A   {api.namespace}/llama   1" in shown.out
        assert "Copies that fit: 1" in lines
        allocated = await run("alloc", "--build", "it", "--copies", "2")
        assert allocated.code == 1
        assert f"0           {api.namespace}-0   1 {resource}" in allocated.out
        assert allocated.err.startswith("kilonova: 1 of 2 instances fit: InsufficientCapacity: ")
