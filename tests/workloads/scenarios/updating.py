"""Updates of sets: how a person makes them, and what is true at every moment of one."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.local.nodes.fleet import NodeGroup
from tests.conftest import Api
from tests.workloads.ground import SETS
from tests.workloads.manifests.load import set_of
from tests.workloads.scenarios.chronicle import Chronicle, Moment, Seen, chronicle
from tests.workloads.scenarios.world import World, world

OLD, NEW, NEWER = "busybox:1.37", "busybox:1.38", "busybox:1.39"
ALL = ("pc-a", "pc-b", "pc-c")


@dataclass
class Stage:
    """A set that runs, and what became of its pods since."""

    world: World
    story: Chronicle
    name: str

    async def status(self) -> Any:
        return (await self.world.get(SETS, self.name))["status"]

    async def edit(self, image: str, *cliques: str, **strategy: Any) -> None:
        """As `kubectl edit` does: another image for cliques, and a strategy if one is given."""
        found = await self.world.get(SETS, self.name)
        templates = found["spec"]["template"]["cliques"]
        for each in templates:
            if each["name"] in cliques:
                each["spec"]["podSpec"]["containers"][0]["image"] = image
        spec: Any = {"template": {"cliques": templates}}
        if strategy:
            spec["updateStrategy"] = strategy
        await self.world.client.patch(SETS, self.name, {"spec": spec}, self.world.namespace)

    async def use_strategy(self, **strategy: Any) -> None:
        body = {"spec": {"updateStrategy": strategy}}
        await self.world.client.patch(SETS, self.name, body, self.world.namespace)

    async def scale(self, replicas: int) -> None:
        """Scale the set."""
        await self.world.scale(SETS, self.name, replicas)

    async def until_updated(self, replicas: int) -> Any:
        """Wait until the set says that it is updated as a whole; its status then."""

        async def so() -> bool:
            found = await self.world.get(SETS, self.name)
            status = found["status"]
            ended = status.get("updateProgress", {}).get("updateEndedAt")
            told = status.get("observedGeneration") == found["metadata"]["generation"]
            counts = (status.get("updatedReplicas"), status.get("availableReplicas"))
            return bool(ended) and told and counts == (replicas, replicas)

        await self.world.until(so)
        return await self.status()

    async def stall(self) -> None:
        """Leave no node for new pods, so that what is done next is done in mid-update."""
        await self.world.free(0)

    async def go_on(self) -> None:
        await self.world.free(len(self.world.nodes))


@asynccontextmanager
async def running_set(
    api: Api, manifest: str, pods: int, *, change: Callable[[Any], None] | None = None, **spec: Any
) -> AsyncGenerator[Stage]:
    """A set of a manifest, changed by a function if one is given, all of its pods ready."""
    nodes = [NodeGroup(f"{api.namespace}-n", 2, memory="64Gi", start="10ms", stop="10ms")]
    async with world(api, group=nodes, free=2) as place, chronicle(place) as story:
        body = set_of(manifest)
        if change is not None:
            change(body)
        await place.apply(body, **spec)
        await story.until_ready(pods)
        name = body["metadata"]["name"]

        async def available() -> bool:
            status = (await place.get(SETS, name)).get("status", {})
            wanted = body["spec"]["replicas"] if "replicas" not in spec else spec["replicas"]
            return status.get("availableReplicas") == wanted

        await place.until(available)
        story.begin()
        yield Stage(place, story, name)


def by_clique(pod: Seen) -> Hashable:
    return pod.clique


def by_unit(pod: Seen) -> Hashable:
    return pod.replica, pod.unit


def by_replica(pod: Seen) -> Hashable:
    return pod.replica


def most_missing(
    moments: Iterable[Moment],
    whole: int,
    by: Callable[[Seen], Hashable],
    among: Callable[[Seen], bool] = lambda _: True,
) -> int:
    """How many of the things that pods form lacked ready pods at one time, at most.

    `whole` is how many ready pods each of the things has; those of the first moment are looked at.
    """
    first, *rest = moments
    things = {by(each) for each in first if among(each)}
    worst = 0
    for moment in rest:
        ready = Counter(by(each) for each in moment if each.ready and among(each))
        worst = max(worst, sum(ready[each] < whole for each in things))
    return worst


def least_ready(moments: Iterable[Moment], clique: str) -> int:
    """How few ready pods a clique had, at worst."""
    return min(sum(each.ready and each.clique == clique for each in moment) for moment in moments)


def order(deleted: Iterable[Seen], by: Callable[[Seen], Hashable]) -> list[Hashable]:
    """In which order things were deleted; one that comes twice was left and taken up again."""
    found: list[Hashable] = []
    for each in map(by, deleted):
        if not found or found[-1] != each:
            found.append(each)
    return found
