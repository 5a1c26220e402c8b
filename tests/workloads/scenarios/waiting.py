"""Gangs that wait and gangs that run: what a scenario says of them."""

from collections import Counter
from typing import Any

from kilonova.api.grove import names
from tests.workloads.ground import CLIQUES, GANGS
from tests.workloads.scenarios.world import World, is_ready


async def still(world: World, *, running: int, waiting: int) -> Counter[str]:
    """See so many pods run and so many wait, and nothing more happen; those that run, by clique."""

    async def so() -> bool:
        pods = await world.pods()
        ready = [each for each in pods if is_ready(each)]
        refused = [each for each in pods if is_gated(each) or is_refused(each)]
        return (len(ready), len(refused), len(pods)) == (running, waiting, running + waiting)

    await world.until(so)
    await world.until_settled()
    assert await so()
    return Counter(map(clique_of, await world.running()))


async def whole_or_none(world: World) -> None:
    """See that no gang runs with less than it needs."""
    placed = Counter(clique_of(each) for each in await world.pods() if is_placed(each))
    for gang in await world.all(GANGS):
        groups = gang["spec"]["podgroups"]
        enough = [placed[each["name"]] >= each["minReplicas"] for each in groups]
        assert all(enough) or not any(placed[each["name"]] for each in groups), gang


async def until_gangs_run(world: World, *gangs: str) -> None:
    """Wait until there are exactly these gangs, and all of them say that they run."""

    async def so() -> bool:
        found = await world.all(GANGS)
        running = [each["metadata"]["name"] for each in found if phase_of(each) == "Running"]
        return running == sorted(gangs) == [each["metadata"]["name"] for each in found]

    await world.until(so)


async def until_breached(world: World, clique: str, breached: str = "True") -> None:
    """Wait until a clique says that it lacks pods it needs, or that it does not."""

    async def so() -> bool:
        found = await world.get(CLIQUES, clique)
        return conditions_of(found).get("MinAvailableBreached") == breached

    await world.until(so)


def conditions_of(found: Any) -> dict[str, str]:
    """The conditions of an object by their types."""
    return {each["type"]: each["status"] for each in found["status"].get("conditions", [])}


def phase_of(gang: Any) -> str:
    return gang.get("status", {}).get("phase", "")


def clique_of(pod: Any) -> str:
    return pod["metadata"]["labels"][names.POD_CLIQUE]


def is_placed(pod: Any) -> bool:
    return bool(pod["spec"].get("nodeName"))


def is_gated(pod: Any) -> bool:
    """Whether the operator does not let it be placed yet."""
    return any(each["name"] == names.GATE for each in pod["spec"].get("schedulingGates", []))


def is_refused(pod: Any) -> bool:
    """Whether the scheduler has no node for it."""
    conditions = pod.get("status", {}).get("conditions", [])
    reasons = [each.get("reason") for each in conditions]
    return not is_placed(pod) and "Unschedulable" in reasons
