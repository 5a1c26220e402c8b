"""Controllers that crash at any of their writes; others, started after them, finish the work."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Client, InProcessTransport
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apiserver.auth import User
from kilonova.local.clock import IdGenerator
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.controllers import ControllerContext, ControllerManager, build_controllers
from kilonova.local.kubelet_api import Kubelets
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.harness.campaigns import select_cases
from tests.local.controllers.apps.manifests import (
    DAEMON_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    set_image,
    wait_for_status,
    wait_rolled_out,
    workload,
)
from tests.local.controllers.apps.scenarios import describe_objects
from tests.local.embedded_cluster import LoopClock, advance_time, run_cluster, virtual_time

pytestmark = virtual_time

_APPS = [f"{name}-controller" for name in ("deployment", "replicaset", "statefulset", "daemonset")]
_NODES = Fleet(nodes=(NodeGroup("n", 2, start="1s", stop="1s"),))
_MASTER = User("controllers", groups=("system:masters",))


class CrashingController:
    """Controllers whose process crashes after so many writes: no further write arrives."""

    def __init__(self, cluster: EmbeddedCluster, writes: int | None) -> None:
        self._cluster = cluster
        self._left = writes
        self.writes = 0
        self.died = asyncio.Event()
        kubelets = Kubelets()
        context = ControllerContext(self._client, LoopClock(), IdGenerator(), "", kubelets)
        self._controllers = ControllerManager(build_controllers(context, ",".join(_APPS)))
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
            self.writes += 1
        return await self._cluster.api.handle(request, _MASTER)

    async def stop(self) -> None:
        await self._controllers.stop()


def _fail(error: Exception) -> None:
    raise error


@asynccontextmanager
async def controllers(
    cluster: EmbeddedCluster, writes: int | None
) -> AsyncGenerator[CrashingController]:
    """Controllers that crash at a write, and others that replace them at once."""
    first = CrashingController(cluster, writes)
    heirs: list[CrashingController] = []

    async def replace() -> None:
        await first.died.wait()
        await first.stop()
        heirs.append(CrashingController(cluster, None))

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
    await wait_rolled_out(client, 2)
    await set_image(client, DEPLOYMENTS, "img:2")
    await wait_rolled_out(client, 2)


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
    desired: Any = dict.fromkeys(fields, replicas)
    await wait_for_status(client, STATEFUL_SETS, **desired)


async def deploy_daemons(client: Client) -> None:
    await client.create(DAEMON_SETS, workload(revisionHistoryLimit=0), "default")
    await daemons(client)
    await set_image(client, DAEMON_SETS, "img:2")
    await daemons(client)


async def daemons(client: Client) -> None:
    fields = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    desired: Any = dict.fromkeys(fields, 2)
    await wait_for_status(client, DAEMON_SETS, **desired)


async def run_to_end(scenario: Any, writes: int | None) -> tuple[Any, int]:
    """What a scenario leaves when the controllers crash after so many writes; and how many there
    were.
    """
    others = "*," + ",".join(f"-{name}" for name in _APPS)
    async with run_cluster(fleet=_NODES, controllers=others) as cluster:
        client = cluster.client("test")
        async with controllers(cluster, writes) as mortal:
            await scenario(client)
            await advance_time(20)
            left = await describe_objects(client, "web")
        del left["Event"]  # an event that was not written is lost with its recorder
        return left, mortal.writes


@pytest.mark.campaign
@pytest.mark.parametrize("run_scenario", [deploy, deploy_stateful, deploy_daemons])
async def test_rollout_completes_wherever_its_controllers_crash(run_scenario: Any) -> None:
    expected, total = await run_to_end(run_scenario, None)
    assert total >= 15
    for writes in select_cases(range(total), 6):
        left, before = await run_to_end(run_scenario, writes)
        assert before == writes, "they did not crash"
        assert left == expected, f"after {writes} writes"
