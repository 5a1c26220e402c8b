"""Every feature of the scheduler has an example, which does what its comment says."""

import re
from collections import Counter
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.cli.drafts import Drafting
from kilonova.cli.manifests import read_manifests
from kilonova.cli.schedulerconfig import read_scheduler_configuration
from kilonova.scheduler.capturing import capture
from kilonova.scheduler.decisions import replay
from kilonova.scheduler.files import load, save
from kilonova.scheduler.whatif import what_if
from tests.examples.staging import (
    DEPLOYMENTS,
    FLEET,
    FOLDER,
    RESERVATIONS,
    VOLUME_CLAIMS,
    Stage,
    stage,
)
from tests.local.embedded_cluster import (
    EVENTS,
    NODES,
    PODS,
    LoopClock,
    eventually,
    settle,
    virtual_time,
)
from tests.scheduler.dra import given
from tests.scheduler.moving import mover_on
from tests.scheduler.scheduling import QUEUES, a_cluster

pytestmark = virtual_time

GPU = "nvidia.com/gpu"


async def test_a_gang_starts_as_a_whole_or_not_at_all() -> None:
    async with stage() as shown:
        await shown.apply("gang")
        await shown.is_running("first-0")
        await shown.apply("gang", step=2)
        assert len(set(await shown.nodes("first"))) == 6
        await settle()
        assert await shown.nodes("second") == []
        assert "needs room for 3 pods and there is room for 2" in await shown.why_not("second-0")


async def test_groups_within_groups_get_their_minimums_first() -> None:
    async with stage() as shown:
        await shown.apply("nested-groups")
        await shown.is_running("serve-0", "serve-0-instance-0")
        await settle()
        assert len(await shown.nodes("serve-0-instance-0")) == 5
        assert len(await shown.nodes("serve-0-instance-1-prefill")) == 1
        assert len(await shown.nodes("serve-0-instance-1-decode")) == 2


async def test_a_required_rack_is_kept_and_a_preferred_one_as_far_as_can_be() -> None:
    async with stage() as shown:
        await shown.apply("topology")
        await shown.is_running("near-0", "large-0")
        await shown.apply("topology", step=2)
        assert len(set(await shown.racks("near"))) == 1
        assert sorted(Counter(await shown.racks("large")).values()) == [1, 8]
        await settle()
        told = await shown.why_not("never-0")
        assert "no kilonova.dev/rack has room for all 5 pods" in told


async def test_each_role_of_a_gang_has_a_rack() -> None:
    async with stage() as shown:
        await shown.apply("subgroup-topology")
        await shown.is_running("split-0")
        prefill, decode = await shown.racks("split-0-prefill"), await shown.racks("split-0-decode")
        assert (len(prefill), len(decode)) == (3, 4)
        assert len(set(prefill)) == len(set(decode)) == 1
        assert set(prefill) != set(decode)


async def test_three_pods_at_a_time_share_a_rack() -> None:
    async with stage() as shown:
        await shown.apply("segments")
        await shown.is_running("pipeline-0")
        racks = await shown.racks("pipeline")
        assert len(set(racks[:3])) == len(set(racks[3:])) == 1
        assert racks[0] != racks[3]


async def test_neighbours_in_rank_are_neighbours_in_place() -> None:
    async with stage() as shown:
        await shown.apply("ranks")
        await shown.is_running("ring-0")
        nodes, racks = await shown.nodes("ring"), await shown.racks("ring")
        assert nodes[::2] == nodes[1::2]
        assert len(set(nodes)) == 8
        assert len(set(racks[:8])) == len(set(racks[8:])) == 1


async def test_replicas_are_in_racks_of_their_own() -> None:
    async with stage() as shown:
        await shown.apply("spread")
        await shown.is_running("model-0", "model-1")
        await shown.is_placed("front", 4)
        first, second = set(await shown.racks("model-0")), set(await shown.racks("model-1"))
        assert len(first) == len(second) == 1
        assert first != second
        kinds = Counter(node.split("-")[0] for node in await shown.nodes("front"))
        assert kinds == {"h100": 2, "l4": 2}
        await settle()
        assert "no gang stands that it keeps apart from" in await shown.why_not("model-2")


async def test_pods_fill_devices_nodes_and_racks() -> None:
    async with stage() as shown:
        await shown.apply("packing")
        await shown.is_placed("pair", 5)
        await shown.is_placed("half", 4)
        assert len({*await shown.racks("pair"), *await shown.racks("half")}) == 1
        pairs = Counter(await shown.nodes("pair"))
        halves = Counter(zip(await shown.nodes("half"), await shown.devices("half"), strict=True))
        assert sorted(halves.values()) == [2, 2]
        shared = Counter(node for node, _ in halves)
        used = [2 * pairs[node] + shared[node] for node in {*pairs, *shared}]
        assert sorted(used) == [4, 8]


async def test_shares_meet_so_that_no_sliver_is_left() -> None:
    async with stage() as shown:
        await shown.apply("fragmentation")
        await shown.is_placed("large", 4)
        await shown.is_placed("small", 4)
        await shown.is_placed("wide", 2)
        assert len(set(await shown.nodes("large"))) == 4
        assert set(await shown.nodes("large")) == set(await shown.nodes("small"))
        assert set(await shown.nodes("wide")) <= set(await shown.nodes("large"))


async def test_devices_are_given_whole_in_shares_and_as_instances() -> None:
    async with stage() as shown:
        await shown.apply("gpu-sharing")
        for name in ("half-a", "half-b", "small", "pair", "memory"):
            await shown.is_placed(name, 1)
        assert await shown.nodes("half-a") == await shown.nodes("half-b")
        assert await shown.devices("half-a") == await shown.devices("half-b")
        (instance,) = await shown.devices("small")
        assert re.fullmatch(r"\d:1g\.10gb@\d", instance)
        (pair,) = await shown.devices("pair")
        assert len(pair.split(",")) == 2
        (memory,) = await shown.devices("memory")
        assert memory.endswith(":125")


async def test_claims_get_the_devices_that_a_driver_published() -> None:
    async with stage() as shown:
        await shown.apply("claims")
        await shown.is_placed("trainer", 2)
        assert await shown.nodes("trainer") == ["h100-0", "h100-0"]
        devices = await given(shown.client, "default")
        assert sorted(one for each in devices.values() for one in each) == [
            "h100-0/gpu-0",
            "h100-0/gpu-1",
        ]
        await settle()
        waits = [each for each in await shown.pods("trainer") if "nodeName" not in each["spec"]]
        told = await shown.why_not(waits[0]["metadata"]["name"])
        assert "cannot allocate all claims" in told


async def test_queues_share_by_what_they_deserve_and_by_weight_up_to_a_limit() -> None:
    async with stage() as shown:
        await shown.apply("queues")
        await settle()
        assert await shown.nodes("nlp") == await shown.nodes("vision") == []
        await shown.apply("queues", step=2)
        await shown.is_placed("nlp", 24)
        await shown.is_placed("vision", 8)
        await settle()
        research = await shown.client.get(QUEUES, "research")
        assert research["status"]["allocated"] == {GPU: "32"}
        assert research["status"]["pendingGangs"] == 48


async def test_who_used_less_lately_goes_first() -> None:
    async with stage() as shown:
        await shown.apply("fair-share")
        await shown.is_placed("past", 8)
        await shown.apply("fair-share", step=2)
        await shown.is_running("light-0")
        await settle()
        assert await shown.nodes("heavy") == []


async def test_an_urgent_gang_pushes_out_one_whole_gang() -> None:
    async with stage() as shown:
        await shown.apply("preemption")
        await shown.is_running("batch-a-0", "batch-b-0")
        await shown.apply("preemption", step=2)
        await shown.is_running("urgent-0")
        await settle()
        left = [len(await shown.nodes(name)) for name in ("batch-a", "batch-b")]
        assert sorted(left) == [0, 4]


async def test_a_queue_gets_back_what_it_deserves() -> None:
    async with stage() as shown:
        await shown.apply("reclaim")
        await shown.is_placed("red", 8)
        await shown.apply("reclaim", step=2)
        await shown.is_running("blue-0")
        await settle()
        assert len(await shown.nodes("red")) == 4


async def test_a_gang_that_began_is_left_alone_for_a_while() -> None:
    async with stage() as shown:
        await shown.apply("min-runtime")
        await shown.is_running("batch-0")
        await shown.apply("min-runtime", step=2)
        await settle()
        assert len(await shown.nodes("batch")) == 8
        assert "default/batch-0 (too young until" in await shown.why_not("urgent-0")
        await shown.is_running("urgent-0")
        assert await shown.nodes("batch") == []


async def test_an_elastic_gang_shrinks_and_runs_on() -> None:
    async with stage() as shown:
        await shown.apply("elastic")
        await shown.is_placed("elastic", 8)
        await shown.apply("elastic", step=2)
        await shown.is_running("urgent-0")
        await settle()
        assert len(await shown.nodes("elastic")) == 5
        await shown.is_running("elastic-0")


async def test_only_who_ends_in_time_passes_a_gang_that_waited_long() -> None:
    async with stage() as shown:
        await shown.apply("backfill")
        await shown.is_running("running-0")
        await settle(310)
        await shown.apply("backfill", step=2)
        await settle()
        assert await shown.nodes("long") == []
        assert "default/large-0" in await shown.why_not("long")
        await shown.apply("backfill", step=3)
        await shown.is_placed("short", 1)
        assert await shown.nodes("large") == await shown.nodes("long") == []


async def test_scattered_pods_are_put_together() -> None:
    settings = read_scheduler_configuration(FOLDER / "moves-config.yaml").settings()
    async with a_cluster(FLEET) as cluster, mover_on(cluster, settings):
        shown = Stage(cluster.client("tester"))
        await shown.apply("moves")
        await shown.is_placed("half", 3)
        assert sorted(Counter(await shown.nodes("half")).values()) == [1, 2]
        await shown.client.set_scale(DEPLOYMENTS, "half", "default", 2)
        await shown.is_placed("half", 2)
        assert len(set(await shown.nodes("half"))) == 2

        async def together() -> bool:
            nodes = await shown.nodes("half")
            return len(nodes) == 2 and len(set(nodes)) == 1

        await eventually(together)
        events = (await shown.client.list(EVENTS, "default")).items
        assert [each["reason"] for each in events].count("Moved") == 1


async def test_lost_devices_and_failed_nodes_are_avoided() -> None:
    async with stage() as shown:
        lost = {"metadata": {"annotations": {"sim.kilonova.dev/lost-gpus": "3"}}}
        await shown.client.patch(NODES, "h100-0", lost)
        await settle()
        await shown.apply("health")
        await shown.is_placed("seven", 1)
        await shown.is_placed("whole", 2)
        assert await shown.devices("seven") == ["0,1,2,4,5,6,7"]
        before = set(await shown.nodes("whole"))
        assert "h100-0" not in before
        refused: JsonObject = {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}
        for each in await shown.pods("whole"):
            name = each["metadata"]["name"]
            await shown.client.patch(PODS, name, refused, "default", subresource="status")
        await settle()
        after = await shown.nodes("whole")
        assert len(after) == 2
        assert not before & set(after)


async def test_why_tells_what_binds_and_what_would_help() -> None:
    async with stage() as shown:
        await shown.apply("why")
        await shown.is_placed("t1", 1)
        await settle()
        told = await shown.why_not("t2")
        assert 'queue "small" may use 8 nvidia.com/gpu: 8 in use, 4 more asked for' in told
        assert 'Smallest change: raise the limit to 12 nvidia.com/gpu in queue "small"' in told
        placed = await shown.why("t1")
        assert placed.state == "Placed"
        assert placed.pods[0].score is not None


async def test_quota_is_no_reason_to_buy_nodes() -> None:
    async with stage() as shown:
        await shown.apply("quota")
        await shown.is_placed("within", 1)
        await settle()
        assert await shown.reason("over") == "QueueLimit"
        assert await shown.reason("huge") == "Unschedulable"


async def test_a_plan_is_what_happens_and_a_snapshot_answers_the_same(tmp_path: Path) -> None:
    async with stage() as shown:
        picture = (await capture(shown.client, now=LoopClock().now)).picture
        drafting = Drafting("2026-05-01T00:00:00Z", {}, {})
        drafting.take(read_manifests([FOLDER / "what-if.yaml"]))
        drafts = drafting.drafts
        planned = what_if(picture, drafts.pods, drafts.gangs)
        save(picture, tmp_path / "cluster.json.gz")
        kept = load(tmp_path / "cluster.json.gz")
        assert what_if(kept, drafts.pods, drafts.gangs) == planned
        assert [each.gang for each in planned.placed] == ["default/fits-0"]
        assert [each.gang for each in planned.refused] == ["default/too-large-0"]
        await shown.apply("what-if")
        await shown.is_running("fits-0")
        assert {pod.node for pod in planned.placed[0].pods} == set(await shown.nodes("fits"))
        (refused,) = replay((await capture(shown.client, now=LoopClock().now)).picture).refused
        assert refused.gang == "default/too-large-0"


async def test_what_kubernetes_lets_a_pod_say_is_kept() -> None:
    async with stage() as shown:
        taint: JsonObject = {
            "spec": {"taints": [{"key": "example.com/guests", "effect": "NoSchedule"}]}
        }
        await shown.client.patch(NODES, "l4-0", taint)
        await shown.apply("basics")
        for name in ("chosen", "beside", "data", "guest"):
            await shown.is_placed(name, 1)
        await shown.is_placed("apart", 3)
        (chosen,) = await shown.nodes("chosen")
        assert chosen.startswith("h100-")
        assert chosen != "h100-0"
        assert await shown.nodes("beside") == [chosen]
        assert len(set(await shown.nodes("apart"))) == 3
        assert "l4-0" not in await shown.nodes("apart")
        claim = await shown.client.get(VOLUME_CLAIMS, "data", "default")
        assert claim["status"]["phase"] == "Bound"
        assert await shown.nodes("guest") == ["l4-0"]
        await settle()
        assert await shown.nodes("gated") == []


async def test_a_reservation_is_used_by_the_pod_that_names_it() -> None:
    async with stage() as shown:
        await shown.apply("reservation")
        await shown.is_placed("demo-run", 1)

        async def used() -> bool:
            found = await shown.client.get(RESERVATIONS, "demo", "default")
            return found.get("status", {}).get("phase") == "Used"

        await eventually(used)


def test_every_example_is_linked_from_a_table_whose_sections_are_there() -> None:
    documented = (FOLDER.parents[1] / "docs" / "scheduling.md").read_text()
    for file in FOLDER.glob("*.yaml"):
        assert f"(../examples/scheduling/{file.name})" in documented
    titles = re.findall(r"^##+ (.+)$", documented, re.MULTILINE)
    sections = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", documented)) <= sections
