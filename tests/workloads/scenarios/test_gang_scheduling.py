"""GS: a gang starts as a whole or not at all. Scenario numbers are those of the specification."""

from collections import Counter

from kilonova.api.grove import names
from tests.workloads.scenarios.support.gang_checks import (
    assert_stable,
    assert_whole_or_none,
    get_conditions,
    get_phase,
    is_gated,
    wait_until_gangs_run,
)
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, scenario_cluster
from tests.workloads.workload_cluster import GANGS, SCALING_GROUPS, SETS

ONE_GANG = "workload1"
"""Ten pods, all of which must start together."""
TWO_GANGS = "workload2"
"""Ten pods: three start first, two are enough for the second gang."""


def first_three(replica: int) -> dict[str, int]:
    """What a replica of `TWO_GANGS` starts with."""
    set_ = f"{TWO_GANGS}-{replica}"
    return {f"{set_}-pc-a": 1, f"{set_}-sg-x-0-pc-b": 1, f"{set_}-sg-x-0-pc-c": 1}


def base_gang(replica: int) -> dict[str, int]:
    """All that is in the base gang of a replica of `TWO_GANGS`."""
    set_ = f"{TWO_GANGS}-{replica}"
    return {f"{set_}-pc-a": 2, f"{set_}-sg-x-0-pc-b": 1, f"{set_}-sg-x-0-pc-c": 3}


async def assert_held(cluster: ScenarioCluster, *, running: int, waiting: int) -> Counter[str]:
    """Assert that so many pods run, in gangs with all required pods, and so many are pending."""
    found = await assert_stable(cluster, running=running, waiting=waiting)
    await assert_whole_or_none(cluster)
    return found


async def scale_up(cluster: ScenarioCluster, replica: int, replicas: int) -> None:
    """Scale the scaling group of a replica of the set, as soon as it is there."""
    (set_,) = await cluster.list_objects(SETS)
    group = f"{set_['metadata']['name']}-{replica}-sg-x"

    async def there() -> bool:
        return await cluster.get(SCALING_GROUPS, group) is not None

    await cluster.wait_until(there)
    await cluster.scale(SCALING_GROUPS, group, replicas)


async def list_gated_gangs(cluster: ScenarioCluster) -> set[str]:
    """Gangs with gated pods."""
    pods = [each for each in await cluster.list_pods() if is_gated(each)]
    return {each["metadata"]["labels"][names.POD_GANG] for each in pods}


async def test_gs1_ten_pods_wait_for_the_tenth_node(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=9) as cluster:
        await cluster.apply(ONE_GANG)
        await assert_held(cluster, running=0, waiting=10)
        gang = await cluster.get(GANGS, f"{ONE_GANG}-0")
        condition = get_conditions(gang)
        assert (condition["Initialized"], condition["Scheduled"], condition["Ready"]) == (
            "True",
            "False",
            "False",
        )
        assert get_phase(gang) == "Pending"
        await cluster.uncordon_nodes(10)
        await cluster.wait_until_running(10)
        await wait_until_gangs_run(cluster, f"{ONE_GANG}-0")
        condition = get_conditions(await cluster.get(GANGS, f"{ONE_GANG}-0"))
        assert (condition["Initialized"], condition["Scheduled"], condition["Ready"]) == (
            "True",
            "True",
            "True",
        )


async def test_gs2_a_scaled_group_starts_its_new_replica_as_a_whole(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=14, free_nodes=9) as cluster:
        await cluster.apply(ONE_GANG)
        await assert_held(cluster, running=0, waiting=10)
        await cluster.uncordon_nodes(10)
        await cluster.wait_until_running(10)
        await scale_up(cluster, 0, 3)
        await assert_held(cluster, running=10, waiting=4)
        await cluster.uncordon_nodes(13)
        await assert_held(cluster, running=10, waiting=4)
        await cluster.uncordon_nodes(14)
        await cluster.wait_until_running(14)
        await wait_until_gangs_run(cluster, f"{ONE_GANG}-0", f"{ONE_GANG}-0-sg-x-0")


async def test_gs3_a_scaled_set_starts_its_new_replica_as_a_whole(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=20, free_nodes=9) as cluster:
        await cluster.apply(ONE_GANG)
        await assert_held(cluster, running=0, waiting=10)
        await cluster.uncordon_nodes(10)
        await cluster.wait_until_running(10)
        await cluster.scale(SETS, ONE_GANG, 2)
        await assert_held(cluster, running=10, waiting=10)
        await cluster.uncordon_nodes(19)
        await assert_held(cluster, running=10, waiting=10)
        await cluster.uncordon_nodes(20)
        await cluster.wait_until_running(20)
        await wait_until_gangs_run(cluster, f"{ONE_GANG}-0", f"{ONE_GANG}-1")


async def test_gs4_set_and_groups_are_scaled_alternately(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=28, free_nodes=9) as cluster:
        await cluster.apply(ONE_GANG)
        await assert_held(cluster, running=0, waiting=10)
        await cluster.uncordon_nodes(10)
        await cluster.wait_until_running(10)
        await scale_up(cluster, 0, 3)
        await assert_held(cluster, running=10, waiting=4)
        await cluster.uncordon_nodes(14)
        await cluster.wait_until_running(14)
        await cluster.scale(SETS, ONE_GANG, 2)
        await assert_held(cluster, running=14, waiting=10)
        await cluster.uncordon_nodes(24)
        await cluster.wait_until_running(24)
        await scale_up(cluster, 1, 3)
        await assert_held(cluster, running=24, waiting=4)
        await cluster.uncordon_nodes(28)
        await cluster.wait_until_running(28)
        scaled = [f"{ONE_GANG}-{replica}-sg-x-0" for replica in range(2)]
        await wait_until_gangs_run(cluster, f"{ONE_GANG}-0", f"{ONE_GANG}-1", *scaled)


async def test_gs5_a_gang_starts_with_what_it_needs_and_the_rest_follows(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=2) as cluster:
        await cluster.apply(TWO_GANGS)
        await assert_held(cluster, running=0, waiting=10)
        assert await list_gated_gangs(cluster) == {f"{TWO_GANGS}-0-sg-x-0"}
        await cluster.uncordon_nodes(3)
        assert await assert_held(cluster, running=3, waiting=7) == first_three(0)
        assert await list_gated_gangs(cluster) == set()
        await cluster.uncordon_nodes(10)
        await cluster.wait_until_running(10)
        await wait_until_gangs_run(cluster, f"{TWO_GANGS}-0", f"{TWO_GANGS}-0-sg-x-0")


async def test_gs6_a_group_scaled_late_starts_at_what_its_replica_needs(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=14, free_nodes=2) as cluster:
        await cluster.apply(TWO_GANGS)
        await assert_held(cluster, running=0, waiting=10)
        await cluster.uncordon_nodes(3)
        assert await assert_held(cluster, running=3, waiting=7) == first_three(0)
        await cluster.uncordon_nodes(10)
        await cluster.wait_until_running(10)
        await scale_up(cluster, 0, 3)
        before = await assert_held(cluster, running=10, waiting=4)
        await cluster.uncordon_nodes(11)
        await assert_held(cluster, running=10, waiting=4)
        await cluster.uncordon_nodes(12)
        third = f"{TWO_GANGS}-0-sg-x-2"
        started = await assert_held(cluster, running=12, waiting=2) - before
        assert started == {f"{third}-pc-b": 1, f"{third}-pc-c": 1}
        await cluster.uncordon_nodes(14)
        await cluster.wait_until_running(14)
        scaled = [f"{TWO_GANGS}-0-sg-x-{index}" for index in range(2)]
        await wait_until_gangs_run(cluster, f"{TWO_GANGS}-0", *scaled)


async def test_gs7_a_group_scaled_while_its_base_starts_follows_node_by_node(
    api: ScenarioApi,
) -> None:
    async with scenario_cluster(api, nodes=14, free_nodes=2) as cluster:
        await cluster.apply(TWO_GANGS)
        await assert_held(cluster, running=0, waiting=10)
        await cluster.uncordon_nodes(3)
        assert await assert_held(cluster, running=3, waiting=7) == first_three(0)
        await scale_up(cluster, 0, 3)
        await assert_held(cluster, running=3, waiting=11)
        await cluster.uncordon_nodes(7)
        assert await assert_held(cluster, running=6, waiting=8) == base_gang(0)
        await cluster.uncordon_nodes(8)
        second = f"{TWO_GANGS}-0-sg-x-1"
        started = base_gang(0) | {f"{second}-pc-b": 1, f"{second}-pc-c": 1}
        assert await assert_held(cluster, running=8, waiting=6) == started
        await cluster.uncordon_nodes(14)
        await cluster.wait_until_running(14)
        scaled = [f"{TWO_GANGS}-0-sg-x-{index}" for index in range(2)]
        await wait_until_gangs_run(cluster, f"{TWO_GANGS}-0", *scaled)


async def test_gs8_a_group_scaled_early_waits_for_its_base(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=14, free_nodes=2) as cluster:
        await cluster.apply(TWO_GANGS)
        await scale_up(cluster, 0, 3)
        scaled = [f"{TWO_GANGS}-0-sg-x-{index}" for index in range(2)]
        await assert_held(cluster, running=0, waiting=14)
        # Two nodes would be enough for a scaled gang.
        assert await list_gated_gangs(cluster) == set(scaled)
        await cluster.uncordon_nodes(3)
        assert await assert_held(cluster, running=3, waiting=11) == first_three(0)
        assert await list_gated_gangs(cluster) == set()
        await cluster.uncordon_nodes(14)
        await cluster.wait_until_running(14)
        await wait_until_gangs_run(cluster, f"{TWO_GANGS}-0", *scaled)


async def test_gs9_a_set_scaled_late_starts_at_what_its_replica_needs(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=20, free_nodes=2) as cluster:
        await cluster.apply(TWO_GANGS)
        await assert_held(cluster, running=0, waiting=10)
        await cluster.uncordon_nodes(10)
        await cluster.wait_until_running(10)
        await cluster.scale(SETS, TWO_GANGS, 2)
        before = await assert_held(cluster, running=10, waiting=10)
        await cluster.uncordon_nodes(12)
        await assert_held(cluster, running=10, waiting=10)
        assert await list_gated_gangs(cluster) == {f"{TWO_GANGS}-1-sg-x-0"}
        await cluster.uncordon_nodes(13)
        assert await assert_held(cluster, running=13, waiting=7) - before == first_three(1)
        await cluster.uncordon_nodes(20)
        await cluster.wait_until_running(20)
        replicas = [f"{TWO_GANGS}-{index}" for index in range(2)]
        await wait_until_gangs_run(cluster, *replicas, *(f"{each}-sg-x-0" for each in replicas))


async def test_gs10_a_set_scaled_early_starts_replica_by_replica(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=20, free_nodes=2) as cluster:
        await cluster.apply(TWO_GANGS)
        await cluster.scale(SETS, TWO_GANGS, 2)
        await assert_held(cluster, running=0, waiting=20)
        replicas = [f"{TWO_GANGS}-{index}" for index in range(2)]
        assert await list_gated_gangs(cluster) == {f"{each}-sg-x-0" for each in replicas}
        await cluster.uncordon_nodes(3)
        started = await assert_held(cluster, running=3, waiting=17)
        assert started in (first_three(0), first_three(1))
        assert len(await list_gated_gangs(cluster)) == 1
        await cluster.uncordon_nodes(20)
        await cluster.wait_until_running(20)
        await wait_until_gangs_run(cluster, *replicas, *(f"{each}-sg-x-0" for each in replicas))


async def test_gs11_set_and_groups_with_spare_pods_are_scaled_alternately(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=28, free_nodes=2) as cluster:
        await cluster.apply(TWO_GANGS)
        await assert_held(cluster, running=0, waiting=10)
        await cluster.uncordon_nodes(3)
        assert await assert_held(cluster, running=3, waiting=7) == first_three(0)
        await cluster.uncordon_nodes(10)
        await cluster.wait_until_running(10)
        await scale_up(cluster, 0, 3)
        await assert_held(cluster, running=10, waiting=4)
        await cluster.uncordon_nodes(14)
        await cluster.wait_until_running(14)
        await cluster.scale(SETS, TWO_GANGS, 2)
        before = await assert_held(cluster, running=14, waiting=10)
        await cluster.uncordon_nodes(17)
        assert await assert_held(cluster, running=17, waiting=7) - before == first_three(1)
        await cluster.uncordon_nodes(24)
        await cluster.wait_until_running(24)
        await scale_up(cluster, 1, 3)
        await assert_held(cluster, running=24, waiting=4)
        await cluster.uncordon_nodes(28)
        await cluster.wait_until_running(28)


async def test_gs12_set_and_groups_are_scaled_before_there_is_capacity(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=28, free_nodes=2) as cluster:
        await cluster.apply(TWO_GANGS)
        await scale_up(cluster, 0, 3)
        await cluster.scale(SETS, TWO_GANGS, 2)
        await scale_up(cluster, 1, 3)
        await assert_held(cluster, running=0, waiting=28)
        assert len(await list_gated_gangs(cluster)) == 4
        await cluster.uncordon_nodes(3)
        started = await assert_held(cluster, running=3, waiting=25)
        assert started in (first_three(0), first_three(1))
        assert len(await list_gated_gangs(cluster)) == 2
        for free in (12, 20):
            await cluster.uncordon_nodes(free)
            await cluster.wait_until_settled()
            await assert_whole_or_none(cluster)
        await cluster.uncordon_nodes(28)
        await cluster.wait_until_running(28)
        replicas = [f"{TWO_GANGS}-{index}" for index in range(2)]
        scaled = [f"{each}-sg-x-{index}" for each in replicas for index in range(2)]
        await wait_until_gangs_run(cluster, *replicas, *scaled)
