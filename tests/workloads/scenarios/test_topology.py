"""TAS: pods stand together as their set says. Scenario numbers are those of the specification."""

from collections import Counter
from typing import Any

import pytest

from kilonova.api.json import JsonObject
from tests.conftest import Api
from tests.workloads.ground import GANGS, GROUPS, PODS, SETS, TOPOLOGIES
from tests.workloads.manifests.load import set_of
from tests.workloads.scenarios.plant import (
    CAGE,
    TOPOLOGY,
    bind_topology,
    constrained,
    domains,
    plant,
    remove_topology,
    see_packed,
    told,
    topology,
    within,
)
from tests.workloads.scenarios.waiting import still, until_gangs_run
from tests.workloads.scenarios.world import World

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
        constrained("tas-set-only", cliques={"worker": within("rack"), "helper": within("block")}),
        4,
        {"0": {"0-worker": "rack", "0-helper": "block"}},
    ),
    "tas3-set": (set_of("tas-set-only"), 4, {"0": {"": "rack"}}),
    "tas4-group": (
        set_of("tas-group-only"),
        6,
        {"0": {"0-pool-0": "rack", "0-pool-1": "rack"}},
    ),
    "tas5-host": (set_of("tas-host"), 2, {"0": {"0-worker": "host"}}),
    "tas6-zone": (constrained("tas-set-only", whole=within("zone")), 4, {"0": {"": "zone"}}),
    "tas8-hierarchy": (set_of("tas-hierarchy"), 8, {"0": ONE_OF_EACH}),
    "tas9-set-and-clique": (
        constrained("tas-host", whole=within("block"), cliques={"worker": within("host")}),
        2,
        {"0": {"": "block", "0-worker": "host"}},
    ),
    "tas10-group-that-scales": (
        constrained(
            "tas-group-only",
            whole=within("block"),
            groups={"pool": within("rack")},
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
        constrained(
            "tas-group-only", groups={"pool": within("rack")}, cliques={"worker": within("host")}
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
    "tas14-replicas": (set_of("tas-replicas"), 4, {"0": {"": "rack"}, "1": {"": "rack"}}),
    "tas15-disaggregated": (set_of("tas-disaggregated"), 10, DISAGGREGATED),
    "tas23-preferred": (set_of("tas-preferred"), 4, {"0": {"": "block~rack"}}),
}


@pytest.mark.parametrize("case", CASES)
async def test_pods_stand_where_their_set_says(api: Api, case: str) -> None:
    body, pods, constraints = CASES[case]
    async with plant(api) as stage:
        await stage.apply(body)
        await stage.until_running(pods)
        assert await told(stage, body["metadata"]["name"]) == constraints
        await see_packed(stage)


async def test_tas1_levels_are_kept_in_their_order(api: Api) -> None:
    async with plant(api) as stage:
        found = await stage.get(TOPOLOGIES, TOPOLOGY)
        assert [each["domain"] for each in found["spec"]["levels"]] == [
            "zone",
            "block",
            "rack",
            "host",
        ]
        gang = await applied_gang(stage, set_of("tas-set-only"))
        assert gang["metadata"]["annotations"]["grove.io/topology-name"] == TOPOLOGY


async def test_tas7_set_without_constraints_stands_anywhere(api: Api) -> None:
    async with plant(api) as stage:
        body = constrained("tas-set-only")
        for clique in body["spec"]["template"]["cliques"]:
            clique["spec"] |= {"replicas": 3, "minAvailable": 3}
            (container,) = clique["spec"]["podSpec"]["containers"]
            container["resources"]["requests"]["memory"] = "90Mi"  # more than a rack has room for
        await stage.apply(body)
        await stage.until_running(6)
        assert await told(stage, "tas-set-only") == {"0": {}}
        assert len(await domains(stage, RACK)) > 1
        assert "TopologyLevelsUnavailable" not in await conditions(stage, "tas-set-only")


async def test_tas12_many_pods_beyond_the_least_stand_with_these(api: Api) -> None:
    async with plant(api) as stage:
        body = set_of("tas-large-scale")
        (container,) = body["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"]
        container["resources"]["requests"]["memory"] = "15Mi"  # a host for each group
        await stage.apply(body)
        await stage.until_running(20)
        assert await told(stage, "tas-large-scale") == {
            "0": {"": "block", "0-workers-0": "rack", "0-workers-0-worker": "host"},
            "0-workers-0": {"": "block", "0-workers-1": "rack", "0-workers-1-worker": "host"},
        }
        await see_packed(stage)


async def test_tas13_rack_without_room_holds_all_pods_back(api: Api) -> None:
    async with plant(api) as stage:
        await stage.apply("tas-insufficient")
        await still(stage, running=0, waiting=10)
        found = await stage.get(GANGS, "tas-insufficient-0")
        assert found["status"]["phase"] == "Pending"


async def test_tas16_two_replicas_each_in_a_block_with_racks_and_hosts(api: Api) -> None:
    async with plant(api) as stage:
        await stage.apply("tas-hierarchy", replicas=2)
        await stage.until_running(16)
        second = {name.replace("0-", "1-", 1): level for name, level in ONE_OF_EACH.items()}
        assert await told(stage, "tas-hierarchy") == {"0": ONE_OF_EACH, "1": second}
        await see_packed(stage)


async def test_tas17_same_level_of_two_topologies_is_another_label(api: Api) -> None:
    async with plant(api) as stage:
        other = {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopologyBinding",
            "metadata": {"name": "cages"},
            "spec": {"levels": [{"domain": "rack", "key": CAGE}]},
        }
        await bind_topology(stage, other)
        try:
            await stage.apply("tas-set-only")
            caged = constrained("tas-set-only", whole=within("rack") | {"topologyName": "cages"})
            caged["metadata"]["name"] = "caged"
            await stage.apply(caged)
            await stage.until_running(8)
            assert await told(stage, "tas-set-only") == {"0": {"": "rack"}}
            assert await told(stage, "caged") == {"0": {"": CAGE}}
            await see_packed(stage)
        finally:
            await remove_topology(stage, "cages")


async def test_tas20_lost_topology_is_told_and_holds_nothing_up(api: Api) -> None:
    async with plant(api) as stage:
        await stage.apply("tas-set-only")
        await stage.until_running(4)
        await until_condition(stage, "tas-set-only", "False AllClusterTopologyLevelsAvailable")
        await remove_topology(stage, TOPOLOGY)
        await until_condition(stage, "tas-set-only", "Unknown ClusterTopologyNotFound")
        await stage.scale(SETS, "tas-set-only", 2)
        await stage.until_running(8)
        assert await told(stage, "tas-set-only") == {"0": {}, "1": {}}
        await bind_topology(stage, topology())
        await until_condition(stage, "tas-set-only", "False AllClusterTopologyLevelsAvailable")
        await until_told(stage, "tas-set-only", {"0": {"": "rack"}, "1": {"": "rack"}})


async def test_tas20_level_that_goes_is_told(api: Api) -> None:
    async with plant(api) as stage:
        await stage.apply(constrained("tas-host", cliques={"worker": within("rack", "host")}))
        await stage.until_running(2)
        assert await told(stage, "tas-host") == {"0": {"0-worker": "rack~host"}}
        shorter = topology()
        shorter["spec"]["levels"].pop()
        await bind_topology(stage, shorter)
        await until_condition(stage, "tas-host", "True ClusterTopologyLevelsUnavailable")
        await until_told(stage, "tas-host", {"0": {"0-worker": "rack"}})


async def test_spread_replicas_stand_in_different_racks(api: Api) -> None:
    async with plant(api) as stage:
        await stage.apply("tas-spread", replicas=4)
        await stage.until_running(8)
        assert await racks_of_replicas(stage, 4) == {
            "rack-0": 1,
            "rack-1": 1,
            "rack-2": 1,
            "rack-3": 1,
        }
        await stage.scale(SETS, "tas-spread", 5)
        await still(stage, running=8, waiting=2)
        await stage.scale(SETS, "tas-spread", 2)
        await until_gangs_run(stage, "tas-spread-0", "tas-spread-1")


async def racks_of_replicas(stage: World, replicas: int) -> Counter[str]:
    return Counter(
        [
            rack
            for index in range(replicas)
            for rack in await domains(stage, RACK, f"tas-spread-{index}-worker")
        ]
    )


async def test_scaled_gangs_stand_in_the_block_of_their_base(api: Api) -> None:
    async with plant(api) as stage:
        first = [each for each in stage.nodes if "-r0-" in each or "-r1-" in each]
        for node in first:
            await stage.cordon(node)
        body = constrained("tas-group-only", whole=within("block"), replicas=1, minAvailable=1)
        await stage.apply(body)
        await stage.until_running(4)
        assert await domains(stage, BLOCK) == {"block-1"}
        for node in first:
            await stage.cordon(node, closed=False)
        await stage.scale(GROUPS, "tas-group-only-0-pool", 3)
        await stage.until_running(8)
        assert await told(stage, "tas-group-only") == {
            "0": {"": "block"},
            "0-pool-0": {"": "block"},
            "0-pool-1": {"": "block"},
        }
        scaled = await stage.get(GANGS, "tas-group-only-0-pool-1")
        assert scaled["spec"]["baseRef"]["name"] == "tas-group-only-0"
        assert await domains(stage, BLOCK) == {"block-1"}


async def test_lost_pod_comes_back_to_its_rack(api: Api) -> None:
    async with plant(api) as stage:
        await stage.apply("tas-set-only")
        await stage.until_running(4)
        before = await domains(stage, RACK)
        pod = (await stage.pods())[0]["metadata"]
        await stage.client.delete(PODS, pod["name"], stage.namespace)

        async def replaced() -> bool:
            uids = {each["metadata"]["uid"] for each in await stage.running()}
            return len(uids) == 4 and pod["uid"] not in uids

        await stage.until(replaced)
        assert await domains(stage, RACK) == before


async def applied_gang(stage: World, body: JsonObject) -> Any:
    await stage.apply(body)
    gang = f"{body['metadata']['name']}-0"

    async def there() -> bool:
        return await stage.get(GANGS, gang) is not None

    await stage.until(there)
    return await stage.get(GANGS, gang)


async def conditions(stage: World, set_name: str) -> dict[str, str]:
    found = await stage.get(SETS, set_name)
    listed = found.get("status", {}).get("conditions", [])
    return {each["type"]: f"{each['status']} {each['reason']}" for each in listed}


async def until_condition(stage: World, set_name: str, wanted: str) -> None:
    async def so() -> bool:
        return (await conditions(stage, set_name)).get("TopologyLevelsUnavailable") == wanted

    await stage.until(so)


async def until_told(stage: World, set_name: str, wanted: dict[str, dict[str, str]]) -> None:
    async def so() -> bool:
        return await told(stage, set_name) == wanted

    await stage.until(so)
