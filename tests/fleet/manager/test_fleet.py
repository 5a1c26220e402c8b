"""Manager and agents together: a hub and three members in virtual time."""

import asyncio
from pathlib import Path
from typing import Any

from kilonova.fleet.documents import DESIRED, JOURNAL, OBSERVED
from kilonova.fleet.store import FleetStore
from kilonova.fleet.store.epochs import generation_of
from kilonova.kube import Client, NotFound
from tests.fleet.store.stores import Bucket, MemoryStore
from tests.fleet.support.fleet_lab import (
    CLUSTERS,
    DEPLOYMENTS,
    INSTANCE_DEPLOYMENTS,
    INSTANCES,
    NAMESPACE,
    RELEASES,
    STORE,
    FleetLab,
    run_hub,
    run_lab,
)
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time

THREE = {"a": 10, "b": 10, "c": 10}
EVEN = {"a": 2, "b": 2, "c": 2}
FAILOVER = {"after": "40s", "failbackAfter": "60s"}


async def deploy_evenly(lab: FleetLab, **spec: Any) -> None:
    await lab.create_release("v1")
    await lab.deploy(replicas=6, failover=FAILOVER, **spec)
    await lab.wait_ready(6)

    async def is_known() -> bool:
        return (await lab.get_status()).get("ready") == 6

    await lab.wait_for(is_known)
    assert await lab.get_desired() == EVEN


async def exists(client: Client, name: str = "chat") -> bool:
    try:
        await client.get(DEPLOYMENTS, name, NAMESPACE)
    except NotFound:
        return False
    return True


async def test_release_runs_in_all_members() -> None:
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        found = await FleetStore(MemoryStore(lab.bucket)).read(OBSERVED, "a")
        assert found is not None
        assert found.document.region == "region-a"
        assert await lab.get_health("a") == "Healthy"
        deployment = (await lab.members["a"].list_deployments())["chat"]
        assert deployment["metadata"]["labels"]["supernova.groq.io/global-deployment"] == "chat"
        assert int(deployment["metadata"]["annotations"]["fleet.kilonova.dev/epoch"]) > 0

        async def is_reported() -> bool:
            release = await lab.client.get(RELEASES, "v1", NAMESPACE)
            clusters = release.get("status", {}).get("clusters", ())
            return [each["cluster"] for each in clusters] == ["a", "b", "c"]

        await lab.wait_for(is_reported)
        journal = await FleetStore(MemoryStore(lab.bucket)).read_all(JOURNAL)
        decided = [entry.what for each in journal for entry in each.document.entries]
        assert "default/chat in a: 0 to 2 instances" in decided


async def test_lost_member_is_replaced_and_drained_when_it_returns() -> None:
    """A partition: the member is alive, and nothing that it runs is taken away before others are
    relied on."""
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        lab.members["a"].partition()
        await lab.wait_health("a", "Lost")
        await lab.wait_ready(8)  # 2 of them unknown to the manager
        assert await lab.members["a"].count_ready() == 2
        lab.members["a"].partition(False)
        await lab.wait_desired(EVEN, within=300)
        for _ in range(30):
            assert await lab.count_ready() >= 6
            await asyncio.sleep(1)
        await lab.wait_ready(6)
        reasons = await lab.list_reasons()
        for each in ("ClusterUnreachable", "ClusterLost", "ClusterRecovered", "InstanceRelocated"):
            assert each in reasons


async def test_instance_that_its_cluster_cannot_place_runs_elsewhere() -> None:
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        lab.members["a"].instances.capacity = 1

        async def is_moved() -> bool:
            desired = await lab.get_desired()
            return desired["a"] == 1 and sum(desired.values()) == 6

        await lab.wait_for(is_moved)
        await lab.wait_ready(6)
        assert "InstanceRelocated" in await lab.list_reasons()
        assert "InstanceRelocated" in await lab.list_reasons(lab.members["a"].client)
        assert (await lab.get_status())["relocated"] == 1


async def test_members_go_on_without_manager_and_without_store() -> None:
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        await lab.managers["nebula-a"].kill()
        for each in lab.members.values():
            each.partition()
        await asyncio.sleep(3600)
        assert await lab.count_ready() == 6
        # An instance that fails is replaced by its own cluster.
        client = lab.members["b"].client
        (first, *_) = (await client.list(INSTANCES)).items
        await client.delete(INSTANCES, first["metadata"]["name"], NAMESPACE)
        await lab.wait_ready(6)


async def test_another_region_takes_over_with_its_own_hub() -> None:
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        await lab.create_release("v2")
        await lab.change(release="v2", rollout={"waves": [{"name": "one", "clusters": ["a"]}]})
        await asyncio.sleep(8)
        await lab.managers["nebula-a"].kill()
        async with run_hub() as other:
            client = other.client("system:admin")
            manager = lab.add_manager("nebula-b", other)
            try:
                await lab.wait_for(lambda: exists(client))
                assert {each["metadata"]["name"] for each in (await client.list(CLUSTERS)).items}
                lab.client = client

                async def completed() -> bool:
                    status = await lab.get_status()
                    clusters = status.get("clusters", ())
                    return [each.get("observedRelease") for each in clusters] == ["v2"] * 3

                await lab.wait_for(completed, within=900)
                history = (await lab.get_status())["history"]
                assert [each["release"] for each in history] == ["v2", "v1"]
            finally:
                await manager.kill()


async def test_hub_that_returns_does_not_undo_what_was_changed_meanwhile() -> None:
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        await lab.managers["nebula-a"].kill()
        first = lab.client
        async with run_hub() as other:
            lab.client = other.client("system:admin")
            manager = lab.add_manager("nebula-b", other)
            await lab.wait_for(lambda: exists(lab.client))
            await lab.change(replicas=9)
            await lab.wait_ready(9)
            await manager.kill()
        lab.client = first
        lab.add_manager("nebula-c")

        async def updated() -> bool:
            found = await first.get(DEPLOYMENTS, "chat", NAMESPACE)
            return found["spec"]["replicas"] == 9

        await lab.wait_for(updated)
        await asyncio.sleep(30)
        assert await lab.count_ready() == 9


async def test_deposed_manager_changes_nothing() -> None:
    """The old leader is paused until another one leads; its orders are refused by the store and, if
    they were written nevertheless, by the members."""
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        store = FleetStore(MemoryStore(lab.bucket))
        before = await store.read(DESIRED, "a")
        assert before is not None
        old = lab.managers["nebula-a"]
        old.link.hanging = True
        lab.add_manager("nebula-b")

        async def led_by_other() -> bool:
            found = await store.read(DESIRED, "a")
            return found is not None and found.document.epoch > before.document.epoch

        await lab.wait_for(led_by_other)
        await asyncio.sleep(15)
        current = await store.read(DESIRED, "a")
        assert current is not None
        # What a store without conditional writes would do to us: the old order is back.
        await store.write(DESIRED, before.document, current.version)
        lab.members["a"].instances.capacity = 1
        await asyncio.sleep(60)
        observed = await store.read(OBSERVED, "a")
        assert observed is not None
        assert observed.document.accepted_epoch > before.document.epoch
        deployment = (await lab.members["a"].list_deployments())["chat"]
        epoch = int(deployment["metadata"]["annotations"]["fleet.kilonova.dev/epoch"])
        assert epoch > before.document.epoch
        old.link.hanging = False
        await asyncio.sleep(60)
        assert (await lab.list_reasons()).count("ClusterLost") == 0
        assert await lab.count_ready() == 6


async def test_deployment_that_is_deleted_leaves_all_members_and_does_not_come_back() -> None:
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        await lab.client.delete(DEPLOYMENTS, "chat", NAMESPACE)

        async def gone() -> bool:
            return not await exists(lab.client)

        await lab.wait_for(gone)
        assert await lab.count_ready() == 0
        assert await lab.members["a"].list_deployments() == {}
        await lab.client.delete(RELEASES, "v1", NAMESPACE)
        await lab.managers["nebula-a"].kill()
        lab.add_manager("nebula-b")
        await asyncio.sleep(60)
        assert not await exists(lab.client)
        assert (await lab.client.list(RELEASES)).items == []


async def test_release_in_use_is_deleted_when_nothing_runs_it_any_more() -> None:
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        await lab.create_release("v2")
        await lab.client.delete(RELEASES, "v1", NAMESPACE)
        await asyncio.sleep(20)
        assert await lab.count_ready() == 6
        await lab.change(release="v2")

        async def gone() -> bool:
            found = (await lab.client.list(RELEASES)).items
            return [each["metadata"]["name"] for each in found] == ["v2"]

        await lab.wait_for(gone)


async def test_cluster_that_is_deleted_is_evacuated_first() -> None:
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        await lab.client.delete(CLUSTERS, "a")

        async def gone() -> bool:
            assert await lab.count_ready() >= 6
            found = (await lab.client.list(CLUSTERS)).items
            return [each["metadata"]["name"] for each in found] == ["b", "c"]

        await lab.wait_for(gone)
        assert await lab.members["a"].count_ready() == 0
        await asyncio.sleep(60)
        assert await gone(), "a deleted cluster does not register itself again"


async def test_foreign_deployment_of_the_same_name_is_left_alone() -> None:
    async with run_lab({"a": 10, "b": 10}) as lab:
        client = lab.members["a"].client
        body = {
            "metadata": {"name": "chat"},
            "spec": {"replicas": 0, "template": {"model": "own", "targetAgents": 1}},
        }
        await client.create(INSTANCE_DEPLOYMENTS, body, NAMESPACE)
        await lab.create_release("v1")
        await lab.deploy(replicas=2)
        await lab.wait_ready(2)
        assert await lab.get_desired() == {"b": 2}
        found = await client.get(INSTANCE_DEPLOYMENTS, "chat", NAMESPACE)
        assert found["spec"]["template"]["model"] == "own"
        cluster = await lab.client.get(CLUSTERS, "a")
        (reachable, *_) = [
            each for each in cluster["status"]["conditions"] if each["type"] == "Reachable"
        ]
        assert "exists and is not the fleet's" in reachable["message"]


async def test_metrics_show_clusters_replicas_and_leaders() -> None:
    async with run_lab(THREE) as lab:
        await deploy_evenly(lab)
        lab.members["a"].partition()
        await lab.wait_health("a", "Lost")
        read = lab.registry.get_sample_value
        assert read("kilonova_fleet_leader") == 1
        assert read("kilonova_fleet_leader_changes_total") == 1
        assert read("kilonova_fleet_clusters_reachable") == 2
        assert read("kilonova_fleet_clusters", {"health": "Lost"}) == 1
        assert read("kilonova_fleet_relocations_total") == 2
        labels = {"namespace": NAMESPACE, "deployment": "chat", "cluster": "a"}
        for state in ("desired", "observed", "ready"):
            assert read("kilonova_fleet_replicas", {**labels, "state": state}) == 2
        await lab.managers["nebula-a"].stop()
        assert read("kilonova_fleet_leader") == 0
        assert read("kilonova_fleet_clusters_reachable") is None


async def test_store_whose_region_is_lost_is_replaced_while_clusters_serve(tmp_path: Path) -> None:
    """The former store cannot be read any more: the hub has what was declared, and the members what
    they run."""
    file = tmp_path / "endpoint"
    file.write_text(STORE)
    async with run_lab(THREE, source=f"@{file}") as lab:
        await deploy_evenly(lab)
        store = FleetStore(MemoryStore(lab.bucket))
        before = await store.read(DESIRED, "a")
        assert before is not None
        del lab.buckets[STORE]
        for each in (*lab.managers.values(), *(one.agent for one in lab.members.values())):
            each.link.cut = True
        await asyncio.sleep(600)
        assert await lab.count_ready() == 6
        lab.buckets["/other"] = Bucket()
        for each in (*lab.managers.values(), *(one.agent for one in lab.members.values())):
            each.link.cut = False
        file.write_text("/other")
        replacement = FleetStore(MemoryStore(lab.buckets["/other"]))

        async def is_led() -> bool:
            assert await lab.count_ready() >= 6
            found = await replacement.read(OBSERVED, "a")
            if found is None:
                return False
            return generation_of(found.document.accepted_epoch) > generation_of(
                before.document.epoch
            )

        await lab.wait_for(is_led, within=300)
        await lab.change(replicas=9)
        await lab.wait_ready(9)
        assert "ClusterLost" not in await lab.list_reasons()


async def test_half_of_the_members_gone_at_once_moves_nothing() -> None:
    async with run_lab({"a": 20, "b": 20, "c": 20, "d": 20}) as lab:
        await lab.create_release("v1")
        await lab.deploy(replicas=8, failover=FAILOVER)
        await lab.wait_ready(8)
        before = await lab.get_desired()
        for name in ("a", "b"):
            lab.members[name].partition()
        await lab.wait_health("a", "Suspect")
        await asyncio.sleep(600)
        assert await lab.get_desired() == before
        conditions = {each["type"]: each for each in (await lab.get_status())["conditions"]}
        assert conditions["Paused"]["reason"] == "FleetFrozen"
        lab.members["a"].partition(False)
        await lab.wait_health("b", "Lost")
        await lab.wait_health("a", "Healthy")
