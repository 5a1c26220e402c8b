"""The Job controller crashes at each of its writes: no pod is lost or counted twice."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from kilonova.kube import Client, InProcessTransport, Manager
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apiserver.auth import User
from kilonova.local.clock import IdGenerator
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.controllers import ControllerContext
from kilonova.local.controllers.batch import job_controllers
from kilonova.local.kubelet_api import Kubelets
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.harness.campaigns import select_cases
from tests.local.controllers.batch.job_helpers import JOBS, job, pods_of, wait_ended
from tests.local.embedded_cluster import run_cluster, virtual_time

pytestmark = virtual_time

ADMIN = User("admin", groups=("system:masters", "system:authenticated"))
OTHERS = "serviceaccount-controller"
FLEET = Fleet(nodes=(NodeGroup("n", 2, cpu=64, memory="64Gi", stop="1s"),))


class CrashingJobController:
    """One run of the controller, which ends at a write, before or after the write is done."""

    def __init__(self, cluster: EmbeddedCluster, *, last: int, done: bool) -> None:
        self.writes = 0
        self.over = asyncio.Event()
        self._cluster = cluster
        self._last = last
        self._done = done
        context = ControllerContext(
            self._client, cluster.clock, IdGenerator(), ca="", kubelets=Kubelets()
        )
        parts = list(job_controllers(context))
        self._manager = Manager(grace=0.1)
        self._manager.add(*context.shared_parts, *parts)

    def _client(self, user: str) -> Client:
        async def answer(request: Request) -> Reply | StreamReply:
            counts = request.method != "GET" and "/events" not in request.path
            if counts:
                self.writes += 1
                if self.writes == self._last:
                    if self._done:
                        await self._cluster.api.handle(request, ADMIN)
                    self.over.set()
                    await asyncio.Event().wait()
            return await self._cluster.api.handle(request, ADMIN)

        return Client(InProcessTransport(answer), field_manager=user)

    async def run(self) -> None:
        task = asyncio.create_task(self._manager.run(signals=False))
        try:
            await self.over.wait()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def outcome(desired: Any, *, last: int, done: bool) -> tuple[Any, list[Any], int]:
    """The final state of a Job whose controller crashed once; and the writes before the crash."""
    async with run_cluster(fleet=FLEET, controllers=OTHERS) as cluster:
        client = cluster.client("test")
        first = CrashingJobController(cluster, last=last, done=done)
        await client.create(JOBS, desired, "default")
        dying = asyncio.create_task(first.run())
        finishing = asyncio.create_task(wait_ended(client, "work", within=900))
        await asyncio.wait((dying, finishing), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        with suppress(asyncio.CancelledError):
            await dying
        second = asyncio.create_task(CrashingJobController(cluster, last=0, done=True).run())
        status = await finishing
        second.cancel()
        with suppress(asyncio.CancelledError):
            await second
        return status, await pods_of(client, "work"), first.writes


def summary(status: Any, pods: list[Any]) -> Any:
    return {
        "succeeded": status.get("succeeded", 0),
        "failed": status.get("failed", 0),
        "indexes": status.get("completedIndexes", ""),
        "conditions": [each["type"] for each in status["conditions"]],
        "uncounted": status.get("uncountedTerminatedPods"),
        "pods": sorted(each["status"]["phase"] for each in pods),
        "finalizers": [each["metadata"].get("finalizers") for each in pods],
    }


@pytest.mark.campaign
@pytest.mark.parametrize(
    "desired",
    [
        job("work", seconds=3, completions=3, parallelism=2),
        job("work", seconds=3, completions=3, parallelism=3, completionMode="Indexed"),
        job("work", seconds=2, code=1, backoffLimit=1),
        job(
            "work",
            seconds=2,
            code=1,
            completions=2,
            parallelism=2,
            completionMode="Indexed",
            backoffLimitPerIndex=1,
        ),
    ],
    ids=["plain", "indexed", "failing", "failing per index"],
)
async def test_a_crash_at_any_write_changes_nothing(desired: Any) -> None:
    status, pods, writes = await outcome(desired, last=0, done=True)
    expected = summary(status, pods)
    assert 5 < writes < 40
    crashes = [(last, done) for last in range(1, writes + 1) for done in (False, True)]
    for last, done in select_cases(crashes, 8):
        status, pods, _ = await outcome(desired, last=last, done=done)
        assert summary(status, pods) == expected, f"write {last}, done: {done}"
