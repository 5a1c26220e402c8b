"""SO: cliques start in the order that their set asks for, each gang for itself."""

from datetime import datetime
from itertools import pairwise
from typing import Any

from kilonova.api.grove import names
from kilonova.api.times import parse_time
from kilonova.local.nodes.fleet import NodeGroup
from tests.conftest import Api
from tests.workloads.ground import CLIQUES
from tests.workloads.scenarios.chronicle import Chronicle, Moment, chronicle
from tests.workloads.scenarios.waiting import until_gangs_run
from tests.workloads.scenarios.world import World, world

Order = dict[str, list[str]]
"""What each clique starts after; those that start at once are not there."""


async def follow(api: Api, set_: str, order: Order, *gangs: str) -> None:
    """Start a set of ten pods, and see that no clique of it starts too early."""
    order = {f"{set_}-0-{name}": _full(set_, after) for name, after in order.items()}
    slow = NodeGroup(f"{api.namespace}-n", 10, memory="150Mi", start="200ms-400ms", stop="10ms")
    async with world(api, free=10, group=[slow]) as stage, chronicle(stage) as story:
        await stage.apply(set_)
        await story.until_ready(10)
        await until_gangs_run(stage, *(f"{set_}-0{each}" for each in gangs))
        cliques = await stage.all(CLIQUES)
        after = {each["metadata"]["name"]: each["spec"].get("startsAfter", []) for each in cliques}
        assert {name: found for name, found in after.items() if found} == order
        needed = {each["metadata"]["name"]: each["spec"]["minAvailable"] for each in cliques}
        no_pod_goes_ahead(story, order, needed)
        await ready_times_are_in_order(stage, order, needed)
        await only_those_wait_that_must(stage, order)


def no_pod_goes_ahead(story: Chronicle, order: Order, needed: dict[str, int]) -> None:
    """See that pods wait from their birth, and go on when enough of what they wait for is ready."""
    for clique, after in order.items():
        born = [each for each in story.born if each.clique == clique]
        assert not any(each.released for each in born[: needed[clique]])
        for before, moment in pairwise([(), *story.moments]):
            if _released(moment, clique) > _released(before, clique):
                assert all(_ready(moment, each) >= needed[each] for each in after)
            assert _ready(moment, clique) <= _released(moment, clique)


async def ready_times_are_in_order(stage: World, order: Order, needed: dict[str, int]) -> None:
    for clique, after in order.items():
        first = min(map(_ready_since, await stage.pods(clique)))
        for each in after:
            times = sorted(map(_ready_since, await stage.pods(each)))
            assert times[needed[each] - 1] <= first


async def only_those_wait_that_must(stage: World, order: Order) -> None:
    for pod in await stage.pods():
        waits = [each["name"] for each in pod["spec"].get("initContainers", [])]
        is_after_others = pod["metadata"]["labels"][names.POD_CLIQUE] in order
        assert waits == ([names.STARTUP_CONTAINER] if is_after_others else [])


def _full(set_: str, cliques: list[str]) -> list[str]:
    return [f"{set_}-0-{each}" for each in cliques]


def _released(moment: Moment, clique: str) -> int:
    return sum(each.released for each in moment if each.clique == clique)


def _ready(moment: Moment, clique: str) -> int:
    return sum(each.ready for each in moment if each.clique == clique)


def _ready_since(pod: Any) -> datetime:
    (ready,) = [each for each in pod["status"]["conditions"] if each["type"] == "Ready"]
    return parse_time(ready["lastTransitionTime"])


async def test_so1_cliques_that_need_all_their_pods_start_in_order(api: Api) -> None:
    order = {
        "sg-x-0-pc-b": ["pc-a"],
        "sg-x-1-pc-b": ["pc-a"],
        "sg-x-0-pc-c": ["sg-x-0-pc-b", "sg-x-1-pc-b"],
        "sg-x-1-pc-c": ["sg-x-0-pc-b", "sg-x-1-pc-b"],
    }
    await follow(api, "workload3", order, "")


async def test_so2_cliques_start_in_order_when_they_have_what_they_need(api: Api) -> None:
    order = {
        "sg-x-0-pc-b": ["pc-a"],
        "sg-x-0-pc-c": ["sg-x-0-pc-b"],
        "sg-x-1-pc-c": ["sg-x-1-pc-b"],
    }
    await follow(api, "workload4", order, "", "-sg-x-0")


async def test_so3_cliques_that_need_all_their_pods_start_after_those_they_name(api: Api) -> None:
    order = {
        "sg-x-0-pc-c": ["pc-a"],
        "sg-x-1-pc-c": ["pc-a"],
        "sg-x-0-pc-b": ["sg-x-0-pc-c", "sg-x-1-pc-c"],
        "sg-x-1-pc-b": ["sg-x-0-pc-c", "sg-x-1-pc-c"],
    }
    await follow(api, "workload5", order, "")


async def test_so4_cliques_start_after_those_they_name_have_what_they_need(api: Api) -> None:
    order = {
        "sg-x-0-pc-b": ["pc-a"],
        "sg-x-0-pc-c": ["sg-x-0-pc-b"],
        "sg-x-1-pc-c": ["sg-x-1-pc-b"],
    }
    await follow(api, "workload6", order, "", "-sg-x-0")
