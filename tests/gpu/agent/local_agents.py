"""The agent of one node, with simulated hardware, on an embedded cluster in virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from kilonova.catalog import load_catalog
from kilonova.gpu.agent.blocking import Blocking
from kilonova.gpu.agent.context import AgentContext, AgentSettings
from kilonova.gpu.agent.local_agent import LocalAgent
from kilonova.gpu.agent.simulated.calls import PacedCalls
from kilonova.gpu.agent.verification.verifier import PodVerifier
from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.simulated import (
    MigDurations,
    SimulatedBackend,
    build_machine,
    find_persona,
)
from kilonova.kube import Client, Manager, Transport
from kilonova.kube.events import EventRecorder
from kilonova.local.cluster import EmbeddedCluster
from tests.local.embedded_cluster import ACCOUNTS, NODES, PODS, LoopClock, run_cluster

P = ParamSpec("P")
T = TypeVar("T")

NODE = "node-a"
INSTANT = MigDurations(0, 0, 0, 0)


def build_backend(persona: str = "h100:2") -> SimulatedBackend:
    """Hardware whose time is that of the loop."""
    catalog = load_catalog()
    machine = build_machine(find_persona(persona, catalog), catalog, node=NODE)
    clock = LoopClock()
    return SimulatedBackend(machine, now=clock.monotonic, durations=INSTANT)


async def _inline(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    await asyncio.sleep(0.2)
    return function(*args, **kwargs)


@asynccontextmanager
async def run_agent(
    client: Client,
    backend: GpuBackend,
    state: Path,
    *,
    settings: AgentSettings | None = None,
    pods_of: Callable[[Any], dict[int, str]] | None = None,
) -> AsyncGenerator[LocalAgent]:
    """An agent from start to stop; a crash is the cancellation of the task that runs this."""
    clock = LoopClock()
    context = AgentContext(
        client=client,
        events=EventRecorder(client, "agent", clock=clock.monotonic, wall=clock.now),
        now=clock.now,
        enqueue=lambda node: None,
        catalog=load_catalog(),
        settings=settings or AgentSettings(),
    )
    verifier = None if pods_of is None else PodVerifier(context, pods_of, _inline)
    local = LocalAgent(
        NODE,
        backend,
        state,
        context,
        calls=PacedCalls(),
        verifier=verifier,
        blocking=Blocking(_inline, 0.0, clock.monotonic),
    )
    await local.open()
    manager = Manager()
    manager.add(*local.runnables)
    run = asyncio.create_task(manager.run(signals=False))
    try:
        yield local
    finally:
        run.cancel()
        await asyncio.wait({run})
        await local.close()


@asynccontextmanager
async def run_node(devices: Sequence[str] = ()) -> AsyncGenerator[tuple[EmbeddedCluster, Client]]:
    """A cluster with one Node, and pods with these devices that run on it."""
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("system:admin")
        await client.create(NODES, {"metadata": {"name": NODE}})
        await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, "default")
        for number, each in enumerate(devices):
            await create_pod(client, f"pod-{number}", each)
        yield cluster, client


async def create_pod(client: Client, name: str, devices: str) -> Any:
    """A pod that the scheduler bound to the node, with devices."""
    body = {
        "metadata": {"name": name, "annotations": {"gpu.kilonova.dev/devices": devices}},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "img"}]},
    }
    return await client.create(PODS, body, "default")


def transport_of(client: Client) -> Transport:
    """The transport of a client of a cluster in this process."""
    return client._transport  # pyright: ignore[reportPrivateUsage]
