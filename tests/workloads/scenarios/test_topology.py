"""TAS: pods are packed as their set requires. Scenario numbers are those of the specification."""

from collections import Counter
from typing import Any

import pytest

from kilonova.api.json import JsonObject
from tests.workloads.manifests.load import load_set
from tests.workloads.scenarios.support.gang_checks import assert_stable, wait_until_gangs_run
from tests.workloads.scenarios.support.rack_cluster import (
    CAGE,
    TOPOLOGY,
    assert_packed,
    bind_topology,
    list_domains,
    list_gang_constraints,
    load_topology,
    pack_constraint,
    rack_cluster,
    remove_topology,
    with_constraints,
)
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster
from tests.workloads.workload_cluster import GANGS, PODS, SCALING_GROUPS, SETS, TOPOLOGY_BINDINGS

RACK = "kubernetes.io/rack"
BLOCK = "kubernetes.io/block"

ONE_OF_EACH = {"": "block", "0-inference-0": "rack", "0-inference-1": "rack"} | {
    f"0-inference-{index}-{clique}": "host" for index in (0, 1) for clique in ("prefill", "decode")
}
DISAGGREGATED = {
    "0": {"": "block", "0-decoder-0": "rack", "0-prefill-0": "rack"},
    "0-decoder-0": {"": "block", "0-decoder-1": "rack"},
    "0-prefill-0": {"": "block", "0-prefill-1": "rack"},
}
CASES: dict[str, tuple[JsonObject, int, dict[str, dict[str, str]]]] = {
    "tas2-cliques-differ": (
        with_constraints(
            "tas-set-only",
            cliques={"worker": pack_constraint("rack"), "helper": pack_constraint("block")},
        ),
        4,
        {"0": {"0-worker": "rack", "0-helper": "block"}},
    ),
    "tas3-set": (load_set("tas-set-only"), 4, {"0": {"": "rack"}}),
    "tas4-group": (
        load_set("tas-group-only"),
        6,
        {"0": {"0-pool-0": "rack", "0-pool-1": "rack"}},
    ),
    "tas5-host": (load_set("tas-host"), 2, {"0": {"0-worker": "host"}}),
    "tas6-zone": (
        with_constraints("tas-set-only", whole=pack_constraint("zone")),
        4,
        {"0": {"": "zone"}},
    ),
    "tas8-hierarchy": (load_set("tas-hierarchy"), 8, {"0": ONE_OF_EACH}),
    "tas9-set-and-clique": (
        with_constraints(
            "tas-host", whole=pack_constraint("block"), cliques={"worker": pack_constraint("host")}
        ),
        2,
        {"0": {"": "block", "0-worker": "host"}},
    ),
    "tas10-group-that-scales": (
        with_constraints(
            "tas-group-only",
            whole=pack_constraint("block"),
            groups={"pool": pack_constraint("rack")},
            replicas=3,
            minAvailable=1,
        ),
        8,
        {
            "0": {"": "block", "0-pool-0": "rack"},
            "0-pool-0": {"": "block", "0-pool-1": "rack"},
            "0-pool-1": {"": "block", "0-pool-2": "rack"},
        },
    ),
    "tas11-group-and-clique": (
        with_constraints(
            "tas-group-only",
            groups={"pool": pack_constraint("rack")},
            cliques={"worker": pack_constraint("host")},
        ),
        6,
        {
            "0": {
                "0-pool-0": "rack",
                "0-pool-0-worker": "host",
                "0-pool-1": "rack",
                "0-pool-1-worker": "host",
            }
        },
    ),
    "tas14-replicas": (load_set("tas-replicas"), 4, {"0": {"": "rack"}, "1": {"": "rack"}}),
    "tas15-disaggregated": (load_set("tas-disaggregated"), 10, DISAGGREGATED),
    "tas23-preferred": (load_set("tas-preferred"), 4, {"0": {"": "block~rack"}}),
}


@pytest.mark.parametrize("case", CASES)
async def test_pods_are_placed_as_their_set_requires(api: ScenarioApi, case: str) -> None:
    body, pods, constraints = CASES[case]
    async with rack_cluster(api) as cluster:
        await cluster.apply(body)
        await cluster.wait_until_running(pods)
        assert await list_gang_constraints(cluster, body["metadata"]["name"]) == constraints
        await assert_packed(cluster)


async def test_tas1_levels_are_kept_in_their_order(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        found = await cluster.get(TOPOLOGY_BINDINGS, TOPOLOGY)
        assert [each["domain"] for each in found["spec"]["levels"]] == [
            "zone",
            "block",
            "rack",
            "host",
        ]
        gang = await apply_and_get_gang(cluster, load_set("tas-set-only"))
        assert gang["metadata"]["annotations"]["grove.io/topology-name"] == TOPOLOGY


async def test_tas7_set_without_constraints_is_placed_anywhere(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        body = with_constraints("tas-set-only")
        for clique in body["spec"]["template"]["cliques"]:
            clique["spec"] |= {"replicas": 3, "minAvailable": 3}
            (container,) = clique["spec"]["podSpec"]["containers"]
            container["resources"]["requests"]["memory"] = (
                "90Mi"  # more than the capacity of a rack
            )
        await cluster.apply(body)
        await cluster.wait_until_running(6)
        assert await list_gang_constraints(cluster, "tas-set-only") == {"0": {}}
        assert len(await list_domains(cluster, RACK)) > 1
        assert "TopologyLevelsUnavailable" not in await get_conditions(cluster, "tas-set-only")


async def test_tas12_pods_beyond_min_available_are_placed_with_the_others(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        body = load_set("tas-large-scale")
        (container,) = body["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"]
        container["resources"]["requests"]["memory"] = "15Mi"  # a host for each group
        await cluster.apply(body)
        await cluster.wait_until_running(20)
        assert await list_gang_constraints(cluster, "tas-large-scale") == {
            "0": {"": "block", "0-workers-0": "rack", "0-workers-0-worker": "host"},
            "0-workers-0": {"": "block", "0-workers-1": "rack", "0-workers-1-worker": "host"},
        }
        await assert_packed(cluster)


async def test_tas13_rack_without_capacity_keeps_all_pods_pending(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        await cluster.apply("tas-insufficient")
        await assert_stable(cluster, running=0, waiting=10)
        found = await cluster.get(GANGS, "tas-insufficient-0")
        assert found["status"]["phase"] == "Pending"


async def test_tas16_two_replicas_each_in_a_block_with_racks_and_hosts(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        await cluster.apply("tas-hierarchy", replicas=2)
        await cluster.wait_until_running(16)
        second = {name.replace("0-", "1-", 1): level for name, level in ONE_OF_EACH.items()}
        assert await list_gang_constraints(cluster, "tas-hierarchy") == {
            "0": ONE_OF_EACH,
            "1": second,
        }
        await assert_packed(cluster)


async def test_tas17_same_level_of_two_topologies_is_another_label(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        other = {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopologyBinding",
            "metadata": {"name": "cages"},
            "spec": {"levels": [{"domain": "rack", "key": CAGE}]},
        }
        await bind_topology(cluster, other)
        try:
            await cluster.apply("tas-set-only")
            caged = with_constraints(
                "tas-set-only", whole=pack_constraint("rack") | {"topologyName": "cages"}
            )
            caged["metadata"]["name"] = "caged"
            await cluster.apply(caged)
            await cluster.wait_until_running(8)
            assert await list_gang_constraints(cluster, "tas-set-only") == {"0": {"": "rack"}}
            assert await list_gang_constraints(cluster, "caged") == {"0": {"": CAGE}}
            await assert_packed(cluster)
        finally:
            await remove_topology(cluster, "cages")


async def test_tas20_lost_topology_is_reported_and_blocks_nothing(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        await cluster.apply("tas-set-only")
        await cluster.wait_until_running(4)
        await wait_for_condition(cluster, "tas-set-only", "False AllClusterTopologyLevelsAvailable")
        await remove_topology(cluster, TOPOLOGY)
        await wait_for_condition(cluster, "tas-set-only", "Unknown ClusterTopologyNotFound")
        await cluster.scale(SETS, "tas-set-only", 2)
        await cluster.wait_until_running(8)
        assert await list_gang_constraints(cluster, "tas-set-only") == {"0": {}, "1": {}}
        await bind_topology(cluster, load_topology())
        await wait_for_condition(cluster, "tas-set-only", "False AllClusterTopologyLevelsAvailable")
        await wait_for_constraints(cluster, "tas-set-only", {"0": {"": "rack"}, "1": {"": "rack"}})


async def test_tas20_removed_level_is_reported(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        await cluster.apply(
            with_constraints("tas-host", cliques={"worker": pack_constraint("rack", "host")})
        )
        await cluster.wait_until_running(2)
        assert await list_gang_constraints(cluster, "tas-host") == {"0": {"0-worker": "rack~host"}}
        shorter = load_topology()
        shorter["spec"]["levels"].pop()
        await bind_topology(cluster, shorter)
        await wait_for_condition(cluster, "tas-host", "True ClusterTopologyLevelsUnavailable")
        await wait_for_constraints(cluster, "tas-host", {"0": {"0-worker": "rack"}})


async def test_spread_replicas_are_placed_in_different_racks(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        await cluster.apply("tas-spread", replicas=4)
        await cluster.wait_until_running(8)
        assert await list_replica_racks(cluster, 4) == {
            "rack-0": 1,
            "rack-1": 1,
            "rack-2": 1,
            "rack-3": 1,
        }
        await cluster.scale(SETS, "tas-spread", 5)
        await assert_stable(cluster, running=8, waiting=2)
        await cluster.scale(SETS, "tas-spread", 2)
        await wait_until_gangs_run(cluster, "tas-spread-0", "tas-spread-1")


async def list_replica_racks(cluster: ScenarioCluster, replicas: int) -> Counter[str]:
    return Counter(
        [
            rack
            for index in range(replicas)
            for rack in await list_domains(cluster, RACK, f"tas-spread-{index}-worker")
        ]
    )


async def test_scaled_gangs_are_placed_in_the_block_of_their_base(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        first = [each for each in cluster.nodes if "-r0-" in each or "-r1-" in each]
        for node in first:
            await cluster.cordon(node)
        body = with_constraints(
            "tas-group-only", whole=pack_constraint("block"), replicas=1, minAvailable=1
        )
        await cluster.apply(body)
        await cluster.wait_until_running(4)
        assert await list_domains(cluster, BLOCK) == {"block-1"}
        for node in first:
            await cluster.cordon(node, unschedulable=False)
        await cluster.scale(SCALING_GROUPS, "tas-group-only-0-pool", 3)
        await cluster.wait_until_running(8)
        assert await list_gang_constraints(cluster, "tas-group-only") == {
            "0": {"": "block"},
            "0-pool-0": {"": "block"},
            "0-pool-1": {"": "block"},
        }
        scaled = await cluster.get(GANGS, "tas-group-only-0-pool-1")
        assert scaled["spec"]["baseRef"]["name"] == "tas-group-only-0"
        assert await list_domains(cluster, BLOCK) == {"block-1"}


async def test_lost_pod_is_recreated_in_its_rack(api: ScenarioApi) -> None:
    async with rack_cluster(api) as cluster:
        await cluster.apply("tas-set-only")
        await cluster.wait_until_running(4)
        before = await list_domains(cluster, RACK)
        pod = (await cluster.list_pods())[0]["metadata"]
        await cluster.client.delete(PODS, pod["name"], cluster.namespace)

        async def replaced() -> bool:
            uids = {each["metadata"]["uid"] for each in await cluster.list_ready_pods()}
            return len(uids) == 4 and pod["uid"] not in uids

        await cluster.wait_until(replaced)
        assert await list_domains(cluster, RACK) == before


async def apply_and_get_gang(cluster: ScenarioCluster, body: JsonObject) -> Any:
    await cluster.apply(body)
    gang = f"{body['metadata']['name']}-0"

    async def there() -> bool:
        return await cluster.get(GANGS, gang) is not None

    await cluster.wait_until(there)
    return await cluster.get(GANGS, gang)


async def get_conditions(cluster: ScenarioCluster, set_name: str) -> dict[str, str]:
    found = await cluster.get(SETS, set_name)
    listed = found.get("status", {}).get("conditions", [])
    return {each["type"]: f"{each['status']} {each['reason']}" for each in listed}


async def wait_for_condition(cluster: ScenarioCluster, set_name: str, wanted: str) -> None:
    async def condition() -> bool:
        return (await get_conditions(cluster, set_name)).get("TopologyLevelsUnavailable") == wanted

    await cluster.wait_until(condition)


async def wait_for_constraints(
    cluster: ScenarioCluster, set_name: str, wanted: dict[str, dict[str, str]]
) -> None:
    async def condition() -> bool:
        return await list_gang_constraints(cluster, set_name) == wanted

    await cluster.wait_until(condition)
