"""Every feature of the scheduler has an example that does what its comment says."""

import re
from collections import Counter
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.cli.plan.manifest_expansion import ManifestExpander
from kilonova.cli.plan.manifests import read_manifests
from kilonova.scheduler.library.decisions import replay_snapshot
from kilonova.scheduler.library.snapshots.capture import capture_snapshot
from kilonova.scheduler.library.snapshots.file import load_snapshot_file, save_snapshot_file
from kilonova.scheduler.library.what_if import what_if
from kilonova.scheduler.process.config import read_scheduler_configuration
from tests.examples.example_cluster import (
    DEPLOYMENTS,
    EXAMPLES,
    FLEET,
    RESERVATIONS,
    VOLUME_CLAIMS,
    ExampleCluster,
    example_cluster,
)
from tests.local.embedded_cluster import (
    EVENTS,
    NODES,
    PODS,
    LoopClock,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.consolidation import consolidating_scheduler
from tests.scheduler.harness.dra_objects import allocated_devices
from tests.scheduler.harness.embedded_scheduler import QUEUES, embedded_cluster

pytestmark = virtual_time

GPU = "nvidia.com/gpu"


async def test_gang_starts_completely_or_not_at_all() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("gang")
        await cluster.wait_running("first-0")
        await cluster.apply("gang", step=2)
        assert len(set(await cluster.nodes("first"))) == 6
        await advance_time()
        assert await cluster.nodes("second") == []
        assert "needs 3 pods, but only 2 fit" in await cluster.waiting_message("second-0")


async def test_nested_groups_get_their_minimums_first() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("nested-groups")
        await cluster.wait_running("serve-0", "serve-0-instance-0")
        await advance_time()
        assert len(await cluster.nodes("serve-0-instance-0")) == 5
        assert len(await cluster.nodes("serve-0-instance-1-prefill")) == 1
        assert len(await cluster.nodes("serve-0-instance-1-decode")) == 2


async def test_required_rack_is_enforced_and_preferred_rack_is_best_effort() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("topology")
        await cluster.wait_running("near-0", "large-0")
        await cluster.apply("topology", step=2)
        assert len(set(await cluster.racks("near"))) == 1
        assert sorted(Counter(await cluster.racks("large")).values()) == [1, 8]
        await advance_time()
        message = await cluster.waiting_message("never-0")
        assert "no kilonova.dev/rack has capacity for all 5 pods" in message


async def test_each_role_of_a_gang_is_in_one_rack() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("subgroup-topology")
        await cluster.wait_running("split-0")
        prefill, decode = (
            await cluster.racks("split-0-prefill"),
            await cluster.racks("split-0-decode"),
        )
        assert (len(prefill), len(decode)) == (3, 4)
        assert len(set(prefill)) == len(set(decode)) == 1
        assert set(prefill) != set(decode)


async def test_segments_of_three_pods_share_a_rack() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("segments")
        await cluster.wait_running("pipeline-0")
        racks = await cluster.racks("pipeline")
        assert len(set(racks[:3])) == len(set(racks[3:])) == 1
        assert racks[0] != racks[3]


async def test_adjacent_ranks_are_placed_close_together() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("ranks")
        await cluster.wait_running("ring-0")
        nodes, racks = await cluster.nodes("ring"), await cluster.racks("ring")
        assert nodes[::2] == nodes[1::2]
        assert len(set(nodes)) == 8
        assert len(set(racks[:8])) == len(set(racks[8:])) == 1


async def test_replicas_are_in_different_racks() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("spread")
        await cluster.wait_running("model-0", "model-1")
        await cluster.wait_placed("front", 4)
        first, second = set(await cluster.racks("model-0")), set(await cluster.racks("model-1"))
        assert len(first) == len(second) == 1
        assert first != second
        kinds = Counter(node.split("-")[0] for node in await cluster.nodes("front"))
        assert kinds == {"h100": 2, "l4": 2}
        await advance_time()
        assert "without gangs of its anti-affinity" in await cluster.waiting_message("model-2")


async def test_pods_fill_devices_nodes_and_racks() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("packing")
        await cluster.wait_placed("pair", 5)
        await cluster.wait_placed("half", 4)
        assert len({*await cluster.racks("pair"), *await cluster.racks("half")}) == 1
        pairs = Counter(await cluster.nodes("pair"))
        halves = Counter(
            zip(await cluster.nodes("half"), await cluster.devices("half"), strict=True)
        )
        assert sorted(halves.values()) == [2, 2]
        shared = Counter(node for node, _ in halves)
        used = [2 * pairs[node] + shared[node] for node in {*pairs, *shared}]
        assert sorted(used) == [4, 8]


async def test_shares_are_packed_without_fragmentation() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("fragmentation")
        await cluster.wait_placed("large", 4)
        await cluster.wait_placed("small", 4)
        await cluster.wait_placed("wide", 2)
        assert len(set(await cluster.nodes("large"))) == 4
        assert set(await cluster.nodes("large")) == set(await cluster.nodes("small"))
        assert set(await cluster.nodes("wide")) <= set(await cluster.nodes("large"))


async def test_devices_are_assigned_whole_in_shares_and_as_mig_instances() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("gpu-sharing")
        for name in ("half-a", "half-b", "small", "pair", "memory"):
            await cluster.wait_placed(name, 1)
        assert await cluster.nodes("half-a") == await cluster.nodes("half-b")
        assert await cluster.devices("half-a") == await cluster.devices("half-b")
        (instance,) = await cluster.devices("small")
        assert re.fullmatch(r"\d:1g\.10gb@\d", instance)
        (pair,) = await cluster.devices("pair")
        assert len(pair.split(",")) == 2
        (memory,) = await cluster.devices("memory")
        assert memory.endswith(":125")


async def test_claims_are_allocated_published_devices() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("claims")
        await cluster.wait_placed("trainer", 2)
        assert await cluster.nodes("trainer") == ["h100-0", "h100-0"]
        devices = await allocated_devices(cluster.client, "default")
        assert sorted(one for each in devices.values() for one in each) == [
            "h100-0/gpu-0",
            "h100-0/gpu-1",
        ]
        await advance_time()
        pending = [each for each in await cluster.pods("trainer") if "nodeName" not in each["spec"]]
        message = await cluster.waiting_message(pending[0]["metadata"]["name"])
        assert "cannot allocate all claims" in message


async def test_queues_share_by_deserved_amounts_weights_and_limits() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("queues")
        await advance_time()
        assert await cluster.nodes("nlp") == await cluster.nodes("vision") == []
        await cluster.apply("queues", step=2)
        await cluster.wait_placed("nlp", 24)
        await cluster.wait_placed("vision", 8)
        await advance_time()
        research = await cluster.client.get(QUEUES, "research")
        assert research["status"]["allocated"] == {GPU: "32"}
        assert research["status"]["pendingGangs"] == 48


async def test_queue_with_less_recent_usage_goes_first() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("fair-share")
        await cluster.wait_placed("past", 8)
        await cluster.apply("fair-share", step=2)
        await cluster.wait_running("light-0")
        await advance_time()
        assert await cluster.nodes("heavy") == []


async def test_urgent_gang_preempts_one_whole_gang() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("preemption")
        await cluster.wait_running("batch-a-0", "batch-b-0")
        await cluster.apply("preemption", step=2)
        await cluster.wait_running("urgent-0")
        await advance_time()
        remaining = [len(await cluster.nodes(name)) for name in ("batch-a", "batch-b")]
        assert sorted(remaining) == [0, 4]


async def test_queue_reclaims_its_deserved_amount() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("reclaim")
        await cluster.wait_placed("red", 8)
        await cluster.apply("reclaim", step=2)
        await cluster.wait_running("blue-0")
        await advance_time()
        assert len(await cluster.nodes("red")) == 4


async def test_recently_started_gang_is_protected_from_preemption() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("min-runtime")
        await cluster.wait_running("batch-0")
        await cluster.apply("min-runtime", step=2)
        await advance_time()
        assert len(await cluster.nodes("batch")) == 8
        assert "default/batch-0 (protected until" in await cluster.waiting_message("urgent-0")
        await cluster.wait_running("urgent-0")
        assert await cluster.nodes("batch") == []


async def test_elastic_gang_shrinks_and_keeps_running() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("elastic")
        await cluster.wait_placed("elastic", 8)
        await cluster.apply("elastic", step=2)
        await cluster.wait_running("urgent-0")
        await advance_time()
        assert len(await cluster.nodes("elastic")) == 5
        await cluster.wait_running("elastic-0")


async def test_backfill_only_for_gangs_that_end_before_the_reservation() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("backfill")
        await cluster.wait_running("running-0")
        await advance_time(310)
        await cluster.apply("backfill", step=2)
        await advance_time()
        assert await cluster.nodes("long") == []
        assert "default/large-0" in await cluster.waiting_message("long")
        await cluster.apply("backfill", step=3)
        await cluster.wait_placed("short", 1)
        assert await cluster.nodes("large") == await cluster.nodes("long") == []


async def test_scattered_pods_are_consolidated() -> None:
    settings = read_scheduler_configuration(EXAMPLES / "consolidation-config.yaml").to_settings()
    async with embedded_cluster(FLEET) as embedded, consolidating_scheduler(embedded, settings):
        cluster = ExampleCluster(embedded.client("tester"))
        await cluster.apply("consolidation")
        await cluster.wait_placed("half", 3)
        assert sorted(Counter(await cluster.nodes("half")).values()) == [1, 2]
        await cluster.client.set_scale(DEPLOYMENTS, "half", "default", 2)
        await cluster.wait_placed("half", 2)
        assert len(set(await cluster.nodes("half"))) == 2

        async def are_on_one_node() -> bool:
            nodes = await cluster.nodes("half")
            return len(nodes) == 2 and len(set(nodes)) == 1

        await wait_for_condition(are_on_one_node)
        events = (await cluster.client.list(EVENTS, "default")).items
        assert [each["reason"] for each in events].count("EvictedForConsolidation") == 1


async def test_lost_devices_and_failed_nodes_are_avoided() -> None:
    async with example_cluster() as cluster:
        lost = {"metadata": {"annotations": {"sim.kilonova.dev/lost-gpus": "3"}}}
        await cluster.client.patch(NODES, "h100-0", lost)
        await advance_time()
        await cluster.apply("health")
        await cluster.wait_placed("seven", 1)
        await cluster.wait_placed("whole", 2)
        assert await cluster.devices("seven") == ["0,1,2,4,5,6,7"]
        before = set(await cluster.nodes("whole"))
        assert "h100-0" not in before
        failed: JsonObject = {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}
        for each in await cluster.pods("whole"):
            name = each["metadata"]["name"]
            await cluster.client.patch(PODS, name, failed, "default", subresource="status")
        await advance_time()
        after = await cluster.nodes("whole")
        assert len(after) == 2
        assert not before & set(after)


async def test_why_reports_the_blocking_constraint_and_remedies() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("why")
        await cluster.wait_placed("t1", 1)
        await advance_time()
        message = await cluster.waiting_message("t2")
        assert 'queue "small" may use 8 nvidia.com/gpu: 8 in use, 4 more requested' in message
        assert 'Smallest change: raise the limit to 12 nvidia.com/gpu in queue "small"' in message
        placed = await cluster.explain("t1")
        assert placed.state == "Placed"
        assert placed.pods[0].score is not None


async def test_pod_over_quota_does_not_trigger_autoscaling() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("quota")
        await cluster.wait_placed("within", 1)
        await advance_time()
        assert await cluster.unscheduled_reason("over") == "QueueLimitReached"
        assert await cluster.unscheduled_reason("huge") == "Unschedulable"


async def test_plan_matches_the_scheduler_and_its_snapshot(tmp_path: Path) -> None:
    async with example_cluster() as cluster:
        snapshot = (await capture_snapshot(cluster.client, now=LoopClock().now)).cluster_snapshot
        expander = ManifestExpander("2026-05-01T00:00:00Z", {}, {})
        expander.expand(read_manifests([EXAMPLES / "what-if.yaml"]))
        expanded = expander.objects
        planned = what_if(snapshot, expanded.pods, expanded.gangs)
        save_snapshot_file(snapshot, tmp_path / "cluster.json.gz")
        loaded = load_snapshot_file(tmp_path / "cluster.json.gz")
        assert what_if(loaded, expanded.pods, expanded.gangs) == planned
        assert [each.gang for each in planned.placed] == ["default/fits-0"]
        assert [each.gang for each in planned.rejected] == ["default/too-large-0"]
        await cluster.apply("what-if")
        await cluster.wait_running("fits-0")
        assert {pod.node for pod in planned.placed[0].pods} == set(await cluster.nodes("fits"))
        (rejected,) = replay_snapshot(
            (await capture_snapshot(cluster.client, now=LoopClock().now)).cluster_snapshot
        ).rejected
        assert rejected.gang == "default/too-large-0"


async def test_kubernetes_scheduling_constraints_are_respected() -> None:
    async with example_cluster() as cluster:
        taint: JsonObject = {
            "spec": {"taints": [{"key": "example.com/guests", "effect": "NoSchedule"}]}
        }
        await cluster.client.patch(NODES, "l4-0", taint)
        await cluster.apply("basics")
        for name in ("chosen", "beside", "data", "guest"):
            await cluster.wait_placed(name, 1)
        await cluster.wait_placed("apart", 3)
        (chosen,) = await cluster.nodes("chosen")
        assert chosen.startswith("h100-")
        assert chosen != "h100-0"
        assert await cluster.nodes("beside") == [chosen]
        assert len(set(await cluster.nodes("apart"))) == 3
        assert "l4-0" not in await cluster.nodes("apart")
        claim = await cluster.client.get(VOLUME_CLAIMS, "data", "default")
        assert claim["status"]["phase"] == "Bound"
        assert await cluster.nodes("guest") == ["l4-0"]
        await advance_time()
        assert await cluster.nodes("gated") == []


async def test_reservation_is_used_by_the_pod_that_names_it() -> None:
    async with example_cluster() as cluster:
        await cluster.apply("reservation")
        await cluster.wait_placed("demo-run", 1)

        async def is_used() -> bool:
            found = await cluster.client.get(RESERVATIONS, "demo", "default")
            return found.get("status", {}).get("phase") == "Used"

        await wait_for_condition(is_used)


def test_every_example_is_linked_in_the_documentation() -> None:
    documented = (EXAMPLES.parents[1] / "docs" / "scheduling.md").read_text()
    for file in EXAMPLES.glob("*.yaml"):
        assert f"(../examples/scheduling/{file.name})" in documented
    titles = re.findall(r"^##+ (.+)$", documented, re.MULTILINE)
    sections = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", documented)) <= sections
