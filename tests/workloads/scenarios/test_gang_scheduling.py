"""GS: a gang starts as a whole or not at all. Scenario numbers are those of the specification."""

from collections import Counter

from kilonova.api.grove import names
from tests.conftest import Api
from tests.workloads.ground import GANGS, GROUPS, SETS
from tests.workloads.scenarios.waiting import (
    conditions_of,
    is_gated,
    phase_of,
    still,
    until_gangs_run,
    whole_or_none,
)
from tests.workloads.scenarios.world import World, world

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


async def held(stage: World, *, running: int, waiting: int) -> Counter[str]:
    """See so many pods run, in gangs that have what they need, and so many wait."""
    found = await still(stage, running=running, waiting=waiting)
    await whole_or_none(stage)
    return found


async def grow(stage: World, replica: int, replicas: int) -> None:
    """Scale the scaling group of a replica of the set, as soon as it is there."""
    (set_,) = await stage.all(SETS)
    group = f"{set_['metadata']['name']}-{replica}-sg-x"

    async def there() -> bool:
        return await stage.get(GROUPS, group) is not None

    await stage.until(there)
    await stage.scale(GROUPS, group, replicas)


async def gated_gangs(stage: World) -> set[str]:
    """Gangs with pods that may not be placed yet."""
    pods = [each for each in await stage.pods() if is_gated(each)]
    return {each["metadata"]["labels"][names.POD_GANG] for each in pods}


async def test_gs1_ten_pods_wait_for_the_tenth_node(api: Api) -> None:
    async with world(api, nodes=10, free=9) as stage:
        await stage.apply(ONE_GANG)
        await held(stage, running=0, waiting=10)
        gang = await stage.get(GANGS, f"{ONE_GANG}-0")
        told = conditions_of(gang)
        assert (told["Initialized"], told["Scheduled"], told["Ready"]) == ("True", "False", "False")
        assert phase_of(gang) == "Pending"
        await stage.free(10)
        await stage.until_running(10)
        await until_gangs_run(stage, f"{ONE_GANG}-0")
        told = conditions_of(await stage.get(GANGS, f"{ONE_GANG}-0"))
        assert (told["Initialized"], told["Scheduled"], told["Ready"]) == ("True", "True", "True")


async def test_gs2_a_scaled_group_starts_its_new_replica_as_a_whole(api: Api) -> None:
    async with world(api, nodes=14, free=9) as stage:
        await stage.apply(ONE_GANG)
        await held(stage, running=0, waiting=10)
        await stage.free(10)
        await stage.until_running(10)
        await grow(stage, 0, 3)
        await held(stage, running=10, waiting=4)
        await stage.free(13)
        await held(stage, running=10, waiting=4)
        await stage.free(14)
        await stage.until_running(14)
        await until_gangs_run(stage, f"{ONE_GANG}-0", f"{ONE_GANG}-0-sg-x-0")


async def test_gs3_a_scaled_set_starts_its_new_replica_as_a_whole(api: Api) -> None:
    async with world(api, nodes=20, free=9) as stage:
        await stage.apply(ONE_GANG)
        await held(stage, running=0, waiting=10)
        await stage.free(10)
        await stage.until_running(10)
        await stage.scale(SETS, ONE_GANG, 2)
        await held(stage, running=10, waiting=10)
        await stage.free(19)
        await held(stage, running=10, waiting=10)
        await stage.free(20)
        await stage.until_running(20)
        await until_gangs_run(stage, f"{ONE_GANG}-0", f"{ONE_GANG}-1")


async def test_gs4_set_and_groups_are_scaled_in_turn(api: Api) -> None:
    async with world(api, nodes=28, free=9) as stage:
        await stage.apply(ONE_GANG)
        await held(stage, running=0, waiting=10)
        await stage.free(10)
        await stage.until_running(10)
        await grow(stage, 0, 3)
        await held(stage, running=10, waiting=4)
        await stage.free(14)
        await stage.until_running(14)
        await stage.scale(SETS, ONE_GANG, 2)
        await held(stage, running=14, waiting=10)
        await stage.free(24)
        await stage.until_running(24)
        await grow(stage, 1, 3)
        await held(stage, running=24, waiting=4)
        await stage.free(28)
        await stage.until_running(28)
        scaled = [f"{ONE_GANG}-{replica}-sg-x-0" for replica in range(2)]
        await until_gangs_run(stage, f"{ONE_GANG}-0", f"{ONE_GANG}-1", *scaled)


async def test_gs5_a_gang_starts_with_what_it_needs_and_the_rest_follows(api: Api) -> None:
    async with world(api, nodes=10, free=2) as stage:
        await stage.apply(TWO_GANGS)
        await held(stage, running=0, waiting=10)
        assert await gated_gangs(stage) == {f"{TWO_GANGS}-0-sg-x-0"}
        await stage.free(3)
        assert await held(stage, running=3, waiting=7) == first_three(0)
        assert await gated_gangs(stage) == set()
        await stage.free(10)
        await stage.until_running(10)
        await until_gangs_run(stage, f"{TWO_GANGS}-0", f"{TWO_GANGS}-0-sg-x-0")


async def test_gs6_a_group_scaled_late_starts_at_what_its_replica_needs(api: Api) -> None:
    async with world(api, nodes=14, free=2) as stage:
        await stage.apply(TWO_GANGS)
        await held(stage, running=0, waiting=10)
        await stage.free(3)
        assert await held(stage, running=3, waiting=7) == first_three(0)
        await stage.free(10)
        await stage.until_running(10)
        await grow(stage, 0, 3)
        before = await held(stage, running=10, waiting=4)
        await stage.free(11)
        await held(stage, running=10, waiting=4)
        await stage.free(12)
        third = f"{TWO_GANGS}-0-sg-x-2"
        started = await held(stage, running=12, waiting=2) - before
        assert started == {f"{third}-pc-b": 1, f"{third}-pc-c": 1}
        await stage.free(14)
        await stage.until_running(14)
        scaled = [f"{TWO_GANGS}-0-sg-x-{index}" for index in range(2)]
        await until_gangs_run(stage, f"{TWO_GANGS}-0", *scaled)


async def test_gs7_a_group_scaled_while_its_base_starts_follows_node_by_node(api: Api) -> None:
    async with world(api, nodes=14, free=2) as stage:
        await stage.apply(TWO_GANGS)
        await held(stage, running=0, waiting=10)
        await stage.free(3)
        assert await held(stage, running=3, waiting=7) == first_three(0)
        await grow(stage, 0, 3)
        await held(stage, running=3, waiting=11)
        await stage.free(7)
        assert await held(stage, running=6, waiting=8) == base_gang(0)
        await stage.free(8)
        second = f"{TWO_GANGS}-0-sg-x-1"
        started = base_gang(0) | {f"{second}-pc-b": 1, f"{second}-pc-c": 1}
        assert await held(stage, running=8, waiting=6) == started
        await stage.free(14)
        await stage.until_running(14)
        scaled = [f"{TWO_GANGS}-0-sg-x-{index}" for index in range(2)]
        await until_gangs_run(stage, f"{TWO_GANGS}-0", *scaled)


async def test_gs8_a_group_scaled_early_waits_for_its_base(api: Api) -> None:
    async with world(api, nodes=14, free=2) as stage:
        await stage.apply(TWO_GANGS)
        await grow(stage, 0, 3)
        scaled = [f"{TWO_GANGS}-0-sg-x-{index}" for index in range(2)]
        await held(stage, running=0, waiting=14)
        # Two nodes would do for a scaled gang.
        assert await gated_gangs(stage) == set(scaled)
        await stage.free(3)
        assert await held(stage, running=3, waiting=11) == first_three(0)
        assert await gated_gangs(stage) == set()
        await stage.free(14)
        await stage.until_running(14)
        await until_gangs_run(stage, f"{TWO_GANGS}-0", *scaled)


async def test_gs9_a_set_scaled_late_starts_at_what_its_replica_needs(api: Api) -> None:
    async with world(api, nodes=20, free=2) as stage:
        await stage.apply(TWO_GANGS)
        await held(stage, running=0, waiting=10)
        await stage.free(10)
        await stage.until_running(10)
        await stage.scale(SETS, TWO_GANGS, 2)
        before = await held(stage, running=10, waiting=10)
        await stage.free(12)
        await held(stage, running=10, waiting=10)
        assert await gated_gangs(stage) == {f"{TWO_GANGS}-1-sg-x-0"}
        await stage.free(13)
        assert await held(stage, running=13, waiting=7) - before == first_three(1)
        await stage.free(20)
        await stage.until_running(20)
        replicas = [f"{TWO_GANGS}-{index}" for index in range(2)]
        await until_gangs_run(stage, *replicas, *(f"{each}-sg-x-0" for each in replicas))


async def test_gs10_a_set_scaled_early_starts_replica_by_replica(api: Api) -> None:
    async with world(api, nodes=20, free=2) as stage:
        await stage.apply(TWO_GANGS)
        await stage.scale(SETS, TWO_GANGS, 2)
        await held(stage, running=0, waiting=20)
        replicas = [f"{TWO_GANGS}-{index}" for index in range(2)]
        assert await gated_gangs(stage) == {f"{each}-sg-x-0" for each in replicas}
        await stage.free(3)
        started = await held(stage, running=3, waiting=17)
        assert started in (first_three(0), first_three(1))
        assert len(await gated_gangs(stage)) == 1
        await stage.free(20)
        await stage.until_running(20)
        await until_gangs_run(stage, *replicas, *(f"{each}-sg-x-0" for each in replicas))


async def test_gs11_set_and_groups_with_spare_pods_are_scaled_in_turn(api: Api) -> None:
    async with world(api, nodes=28, free=2) as stage:
        await stage.apply(TWO_GANGS)
        await held(stage, running=0, waiting=10)
        await stage.free(3)
        assert await held(stage, running=3, waiting=7) == first_three(0)
        await stage.free(10)
        await stage.until_running(10)
        await grow(stage, 0, 3)
        await held(stage, running=10, waiting=4)
        await stage.free(14)
        await stage.until_running(14)
        await stage.scale(SETS, TWO_GANGS, 2)
        before = await held(stage, running=14, waiting=10)
        await stage.free(17)
        assert await held(stage, running=17, waiting=7) - before == first_three(1)
        await stage.free(24)
        await stage.until_running(24)
        await grow(stage, 1, 3)
        await held(stage, running=24, waiting=4)
        await stage.free(28)
        await stage.until_running(28)


async def test_gs12_set_and_groups_are_scaled_before_there_is_room(api: Api) -> None:
    async with world(api, nodes=28, free=2) as stage:
        await stage.apply(TWO_GANGS)
        await grow(stage, 0, 3)
        await stage.scale(SETS, TWO_GANGS, 2)
        await grow(stage, 1, 3)
        await held(stage, running=0, waiting=28)
        assert len(await gated_gangs(stage)) == 4
        await stage.free(3)
        started = await held(stage, running=3, waiting=25)
        assert started in (first_three(0), first_three(1))
        assert len(await gated_gangs(stage)) == 2
        for free in (12, 20):
            await stage.free(free)
            await stage.until_settled()
            await whole_or_none(stage)
        await stage.free(28)
        await stage.until_running(28)
        replicas = [f"{TWO_GANGS}-{index}" for index in range(2)]
        scaled = [f"{each}-sg-x-{index}" for each in replicas for index in range(2)]
        await until_gangs_run(stage, *replicas, *scaled)
