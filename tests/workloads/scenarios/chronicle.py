"""What became of the pods of a scenario, event by event: nothing between two looks is missed."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.api.grove import names
from kilonova.kube import Reflector
from tests.workloads.ground import PODS, parts_running
from tests.workloads.scenarios.world import PATIENCE, World, is_ready


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod as it was at some moment."""

    name: str
    uid: str
    clique: str
    replica: int
    """Of the set."""
    unit: int | None
    """The replica of its scaling group."""
    image: str
    ready: bool
    placed: bool
    released: bool
    """Whether what it starts after has started."""


Moment = tuple[Seen, ...]
"""All pods that are not ending."""


class Chronicle:
    """Follows all pods of a namespace."""

    def __init__(self, world: World) -> None:
        self.moments: list[Moment] = []
        self.born: list[Seen] = []
        self.deleted: list[Seen] = []
        """As they were before, in the order in which they were deleted."""
        self.reflector = Reflector(world.client, PODS, world.namespace)
        self.reflector.store.subscribe(self._changed)
        self._live: dict[str, Seen] = {}
        self._news = asyncio.Event()

    @property
    def now(self) -> Moment:
        return tuple(self._live.values())

    def of(self, clique: str) -> list[Seen]:
        """The pods of a clique now."""
        return [each for each in self.now if each.clique == clique]

    def images(self, clique: str = "") -> set[str]:
        """Which versions there are now, of one clique or all."""
        return {each.image for each in self.now if clique in ("", each.clique)}

    def begin(self) -> None:
        """Forget what was before."""
        self.moments, self.born, self.deleted = [self.now], [], []

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def until_ready(self, count: int, image: str = "") -> None:
        """Wait until there are exactly so many pods and all are ready, and of an image."""

        def so() -> bool:
            pods = self.now
            return len(pods) == count and all(
                each.ready and image in ("", each.image) for each in pods
            )

        await self.until(so)

    def _changed(self, old: Any, new: Any) -> None:
        pod = new or old
        uid = pod["metadata"]["uid"]
        known = self._live.get(uid)
        if new is None or "deletionTimestamp" in new["metadata"]:
            if known is None:
                return
            del self._live[uid]
            self.deleted.append(known)
        else:
            self._live[uid] = _seen(new)
            if known is None:
                self.born.append(self._live[uid])
        self.moments.append(self.now)
        self._news.set()


@asynccontextmanager
async def chronicle(world: World) -> AsyncGenerator[Chronicle]:
    """Follow the pods of a world."""
    made = Chronicle(world)
    async with parts_running([made.reflector], []):
        await made.reflector.wait_synced()
        yield made


def _seen(pod: Any) -> Seen:
    labels = pod["metadata"]["labels"]
    unit = labels.get(names.SCALING_GROUP_REPLICA_INDEX)
    return Seen(
        name=pod["metadata"]["name"],
        uid=pod["metadata"]["uid"],
        clique=labels[names.POD_CLIQUE],
        replica=int(labels[names.SET_REPLICA_INDEX]),
        unit=None if unit is None else int(unit),
        image=pod["spec"]["containers"][0]["image"],
        ready=is_ready(pod),
        placed=bool(pod["spec"].get("nodeName")),
        released=names.RELEASED in pod["metadata"].get("annotations", {}),
    )
