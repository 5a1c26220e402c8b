"""Controllers that die at any of their writes; others, started after them, finish the work."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Client, InProcessTransport
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.auth import User
from kilonova.local.clock import Identities
from kilonova.local.cluster import Cluster
from kilonova.local.controllers import Controllers, Workshop, controller_parts
from kilonova.local.kubelets import Kubelets
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from tests.local.controllers.apps.scenes import picture
from tests.local.controllers.apps.workloads import (
    DAEMON_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    rolled_out,
    set_image,
    until_status,
    workload,
)
from tests.local.embedded_cluster import LoopClock, running, settle, virtual_time

pytestmark = virtual_time

_APPS = [f"{name}-controller" for name in ("deployment", "replicaset", "statefulset", "daemonset")]
_NODES = Fleet(nodes=(NodeGroup("n", 2, start="1s", stop="1s"),))
_MASTER = User("controllers", groups=("system:masters",))


class Mortal:
    """Controllers whose process dies after so many writes: nothing more of theirs arrives."""

    def __init__(self, cluster: Cluster, writes: int | None) -> None:
        self._cluster = cluster
        self._left = writes
        self.died = asyncio.Event()
        kubelets = Kubelets()
        workshop = Workshop(self._client, LoopClock(), Identities(), "", kubelets)
        self._controllers = Controllers(controller_parts(workshop, ",".join(_APPS)))
        self._controllers.start(on_failure=_fail)

    def _client(self, user: str) -> Client:
        return Client(InProcessTransport(self._answer), field_manager=user)

    async def _answer(self, request: Request) -> Reply | StreamReply:
        if request.method != "GET" and not request.path.endswith("/events"):
            if self._left == 0:
                self.died.set()
                await asyncio.Event().wait()
            if self._left is not None:
                self._left -= 1
        return await self._cluster.api.handle(request, _MASTER)

    async def stop(self) -> None:
        await self._controllers.stop()


def _fail(error: Exception) -> None:
    raise error


@asynccontextmanager
async def controllers(cluster: Cluster, writes: int) -> AsyncGenerator[Mortal]:
    """Controllers that die at a write, and others in their place as soon as they did."""
    first = Mortal(cluster, writes)
    heirs: list[Mortal] = []

    async def replace() -> None:
        await first.died.wait()
        await first.stop()
        heirs.append(Mortal(cluster, None))

    replacing = asyncio.create_task(replace())
    try:
        yield first
    finally:
        replacing.cancel()
        await asyncio.gather(replacing, return_exceptions=True)
        for each in heirs or [first]:
            await each.stop()


async def deploy(client: Client) -> None:
    made = workload(replicas=2, revisionHistoryLimit=0)
    await client.create(DEPLOYMENTS, made, "default")
    await rolled_out(client, 2)
    await set_image(client, DEPLOYMENTS, "img:2")
    await rolled_out(client, 2)


async def deploy_stateful(client: Client) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    made = workload(
        replicas=2,
        volumeClaimTemplates=[claim],
        revisionHistoryLimit=0,
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"},
    )
    await client.create(STATEFUL_SETS, made, "default")
    await stateful(client, 2)
    await set_image(client, STATEFUL_SETS, "img:2")
    await stateful(client, 2)
    await client.set_scale(STATEFUL_SETS, "web", "default", 1)
    await stateful(client, 1)


async def stateful(client: Client, replicas: int) -> None:
    fields = ("replicas", "availableReplicas", "updatedReplicas", "currentReplicas")
    wanted: Any = dict.fromkeys(fields, replicas)
    await until_status(client, STATEFUL_SETS, **wanted)


async def deploy_daemons(client: Client) -> None:
    await client.create(DAEMON_SETS, workload(revisionHistoryLimit=0), "default")
    await daemons(client)
    await set_image(client, DAEMON_SETS, "img:2")
    await daemons(client)


async def daemons(client: Client) -> None:
    fields = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    wanted: Any = dict.fromkeys(fields, 2)
    await until_status(client, DAEMON_SETS, **wanted)


async def ending(story: Any, writes: int) -> tuple[Any, bool]:
    """What a story leaves behind when the controllers die at that write; and whether they did."""
    others = "*," + ",".join(f"-{name}" for name in _APPS)
    async with running(fleet=_NODES, controllers=others) as cluster:
        client = cluster.client("test")
        async with controllers(cluster, writes) as mortal:
            await story(client)
            await settle(20)
            left = await picture(client, "web")
        del left["Event"]  # one that was not written is lost with its writer
        return left, mortal.died.is_set()


@pytest.mark.parametrize("story", [deploy, deploy_stateful, deploy_daemons])
async def test_a_rollout_ends_the_same_wherever_its_controllers_die(story: Any) -> None:
    expected, died = await ending(story, 1_000_000)
    assert not died
    writes, died = 0, True
    while died:
        left, died = await ending(story, writes)
        assert left == expected, f"after {writes} writes"
        writes += 1
    assert writes > 15
