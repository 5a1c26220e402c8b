"""Coherent updates that cannot complete at once never mix versions."""

import re
from typing import Any

import pytest

from kilonova.kube import Client, Transport
from kilonova.kube.client.transport import Reply, Request
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import OperatorSettings
from tests.local.embedded_cluster import LoopClock, advance_time, virtual_time, wait_for_condition
from tests.workloads.operator.test_updates import (
    build_set,
    has_versions,
    is_update_done,
    running_watcher,
    wait_until_all_pods_at,
)
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import NAMESPACE, PODS, run_runnables, workload_cluster

pytestmark = virtual_time


class RejectingTransport(Transport):
    """Rejects requests that match `METHOD path`, until `stop_rejecting`."""

    def __init__(self, inner: Transport, pattern: str) -> None:
        self.rejected = 0
        self._inner = inner
        self._pattern: re.Pattern[str] | None = re.compile(pattern)

    def stop_rejecting(self) -> None:
        self._pattern = None

    async def send(self, request: Request) -> Reply:
        if self._pattern and self._pattern.fullmatch(f"{request.method} {request.path}"):
            self.rejected += 1
            return Reply(500)
        return await self._inner.send(request)

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize(
    "rejected",
    [
        "PATCH .*/podcliques/sys-0-worker",
        "PATCH .*/podcliques/sys-0-front",
        "DELETE .*/pods/sys-0-worker-.*",
        "DELETE .*/pods/sys-0-front-.*",
    ],
)
async def test_new_pods_wait_until_the_last_old_pod_is_deleted(rejected: str) -> None:
    async with workload_cluster() as cluster:
        async with running_operator(cluster.cluster):
            await cluster.apply(build_set(1, "1", coherent=True))
            await wait_for_condition(lambda: has_versions(cluster, ["1"] * 3))
        clock = LoopClock()
        inner = cluster.cluster.client("operator")._transport  # pyright: ignore[reportPrivateUsage]  # of a cluster in this process
        transport = RejectingTransport(inner, rejected)
        client = Client(transport, field_manager="operator")
        operator = build_operator(
            client, OperatorSettings(), now=clock.now, monotonic=clock.monotonic
        )
        async with (
            run_runnables(operator.runnables, operator.leader_runnables),
            running_watcher(cluster) as watcher,
        ):
            await cluster.apply(build_set(1, "2", coherent=True))
            await advance_time(30)
            assert transport.rejected > 0
            transport.stop_rejecting()
            await cluster.wait_for_status(
                lambda each: is_update_done(each) and each["updatedReplicas"] == 1
            )
            await wait_until_all_pods_at(cluster, "2", 3)
        assert watcher.versions <= {frozenset(), frozenset("1"), frozenset("2")}


async def test_mixed_versions_left_by_users_are_replaced_together() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_set(1, "1", "OnDelete"))
        await wait_for_condition(lambda: has_versions(cluster, ["1"] * 3))
        await cluster.apply(build_set(1, "2", "OnDelete"))
        await cluster.wait_for_status(is_update_done)
        victim = (await cluster.list_objects(PODS))[-1]["metadata"]["name"]
        await cluster.client.delete(PODS, victim, NAMESPACE)
        await wait_for_condition(lambda: has_versions(cluster, ["1", "1", "2"]))
        await cluster.apply(build_set(1, "2", coherent=True))
        await cluster.wait_for_status(
            lambda each: is_update_done(each) and each["updatedReplicas"] == 1
        )
        await wait_until_all_pods_at(cluster, "2", 3)
