"""Coscheduling PodGroups on both API servers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kilonova.cli.install import install_definitions
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.conftest import Api
from tests.local.embedded_cluster import PODS, wait_for_condition
from tests.scheduler.harness.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    coscheduling_pod_group,
    install_coscheduling,
    with_group_label,
)
from tests.scheduler.process.scheduler_process_cluster import (
    SchedulerTestCluster,
    scheduler_test_cluster,
)
from tests.workloads.workload_cluster import run_runnables


@asynccontextmanager
async def scheduler_test_cluster_with_scheduler(
    api: Api, nodes: int
) -> AsyncGenerator[SchedulerTestCluster]:
    """Some nodes and our scheduler."""
    async with scheduler_test_cluster(api, nodes) as place:
        await install_definitions(place.client)
        await install_coscheduling(place.client)
        scheduler = build_scheduler(place.client, SchedulerSettings())
        async with run_runnables(scheduler.runnables, scheduler.leader_runnables):
            yield place


async def test_group_starts_together_once_its_minimum_fits(api: Api) -> None:
    async with scheduler_test_cluster_with_scheduler(api, 1) as place:
        await place.create(place.pod("before", 2))
        await place.until_placed("before")
        await place.client.create(
            COSCHEDULING_POD_GROUPS,
            coscheduling_pod_group("train", 2, api.namespace),
            api.namespace,
        )
        for name in ("w0", "w1", "w2"):
            await place.create(with_group_label(place.pod(name, 4), "train"))

        async def is_reported() -> bool:
            return await place.pod_scheduled_reason("w0") == "Unschedulable"

        await wait_for_condition(is_reported)
        pods = await place.pods()
        assert not any(pods[name]["spec"].get("nodeName") for name in ("w0", "w1", "w2"))
        await place.client.delete(PODS, "before", api.namespace, grace_period_seconds=0)

        async def two_placed() -> bool:
            pods = await place.pods()
            return sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) == 2

        await wait_for_condition(two_placed)
        group = await place.client.get(COSCHEDULING_POD_GROUPS, "train", api.namespace)
        assert "status" not in group


async def test_pod_waits_for_a_missing_group(api: Api) -> None:
    async with scheduler_test_cluster_with_scheduler(api, 1) as place:
        await place.create(with_group_label(place.pod("early", 1), "late"))

        async def is_reported() -> bool:
            return await place.pod_scheduled_reason("early") == "PodGroupNotFound"

        await wait_for_condition(is_reported)
        await place.client.create(
            COSCHEDULING_POD_GROUPS, coscheduling_pod_group("late", 1, api.namespace), api.namespace
        )
        await place.until_placed("early")
