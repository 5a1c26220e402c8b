"""Strategies and policies that do not work, on an embedded cluster in virtual time."""

from prometheus_client import CollectorRegistry

from kilonova.artifacts.builds import Build, BuildAccelerator, BuildNotFound
from kilonova.instances.settings import InstanceSettings
from tests.instances.instance_cluster import (
    NAMESPACE,
    PODS,
    accelerator_nodes,
    condition_of,
    instance_cluster,
    running_controllers,
)
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time


async def test_unknown_strategy_is_named_and_stops_no_other_instance() -> None:
    async with instance_cluster() as cluster:
        await cluster.create("bad", allocation={"strategy": "luck"})
        await cluster.create("good")
        await cluster.wait_for_phase("Ready", "good")
        status = await cluster.wait_for(
            lambda each: condition_of(each, "Allocated").get("status") == "False", "bad"
        )
        allocated = condition_of(status, "Allocated")
        assert allocated["reason"] == "AllocationStrategyFailed"
        assert allocated["message"] == (
            "spec.allocation.strategy: there is no 'luck' in kilonova.allocation: "
            "use one of packed, spread, tightest"
        )
        assert status["pendingAgents"] == 4
        assert not [each for each in await cluster.list_names(PODS) if each.startswith("bad")]
        assert [reason for reason, _ in await cluster.list_events("bad")] == [
            "AllocationStrategyFailed"
        ]


async def test_ladder_repairs_where_the_policy_does_not_work() -> None:
    async with instance_cluster() as cluster:
        await cluster.create(repair={"policy": "magic"})
        await cluster.wait_for_phase("Ready")
        await cluster.client.delete(PODS, "llama-agent-0", NAMESPACE)
        await cluster.wait_for(
            lambda each: each["phase"] == "Ready" and each.get("repairs", {}).get("recreated") == 1
        )
        events = dict(await cluster.list_events())
        message = "spec.repair.policy: there is no 'magic' in kilonova.repair: use one of ladder"
        assert events["RepairPolicyFailed"] == f"{message}: using ladder"


async def test_build_says_what_the_spec_leaves_out() -> None:
    builds = {
        "b1": Build(id="b1", model="m", agents=2, accelerator=BuildAccelerator(count=8)),
    }
    asked: list[str] = []

    async def load(name: str) -> Build:
        asked.append(name)
        if name not in builds:
            raise BuildNotFound(f"/builds/{name}", "there is no such build")
        return builds[name]

    settings = InstanceSettings(load_build=load)
    async with instance_cluster(accelerator_nodes(4), settings=settings) as cluster:
        await cluster.create(build="b1", targetAgents=None, accelerator=None)
        await cluster.create("other", build="b2", targetAgents=None, accelerator=None)
        status = await cluster.wait_for_phase("Ready")
        assert status["targetAgents"] == 2
        assert len({each["node"] for each in status["allocation"]}) == 2
        status = await cluster.wait_for(lambda each: bool(each.get("conditions")), "other")
        allocated = condition_of(status, "Allocated")
        assert allocated["reason"] == "BuildNotFound"
        assert allocated["message"] == "spec.build: /builds/b2: there is no such build"

        # Repairs do not need the source of builds.
        builds.clear()
        asked.clear()
        await cluster.client.delete(PODS, "llama-agent-0", NAMESPACE)
        await cluster.wait_for(
            lambda each: each["phase"] == "Ready" and each.get("repairs", {}).get("recreated") == 1
        )
        assert "b1" not in asked


async def test_build_needs_a_source_or_the_number_of_agents() -> None:
    async with instance_cluster() as cluster:
        await cluster.create(build="b1", targetAgents=None)
        status = await cluster.wait_for(lambda each: bool(each.get("conditions")))
        message = condition_of(status, "Allocated")["message"]
        assert message.startswith("spec.build: there is no source of builds: set spec.targetAgents")
        await cluster.create("other", build="b1")
        await cluster.wait_for_phase("Ready", "other")


async def test_metrics_count_allocations_and_repairs() -> None:
    registry = CollectorRegistry()
    async with (
        instance_cluster(accelerator_nodes(3, racks=1), controllers=False) as cluster,
        running_controllers(cluster.cluster, registry=registry),
    ):
        await cluster.create()
        await cluster.wait_for_phase("Ready")
        labels = {"namespace": NAMESPACE, "instance": "llama"}

        def read(name: str, **by: str) -> float | None:
            return registry.get_sample_value(f"kilonova_instance_{name}", by)

        assert read("agents_ready", **labels) == 4
        assert read("agents_pending", **labels) == 0
        assert read("allocations_total", result="allocated") == 1
        assert read("allocation_seconds_count") == 1
        await cluster.client.delete(PODS, "llama-agent-0", NAMESPACE)
        await cluster.wait_for(
            lambda each: each["phase"] == "Ready" and each.get("repairs", {}).get("recreated") == 1
        )
        assert read("repairs_total", rung="recreate") == 1
        assert read("repairs_total", rung="relocate") is None
