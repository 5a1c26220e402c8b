"""Managers that want to lead, and a member that they want to write to."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kilonova.fleet.store import EpochGuard, EpochRefused, FleetElection, FleetStore, FleetTerm
from kilonova.fleet.store.endpoints import parse_endpoints
from kilonova.fleet.store.quorum import QuorumStore
from kilonova.kube.election import LeadershipLost
from tests.fleet.store.stores import Bucket, Link, MemoryStore

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Regions:
    """Buckets by name, and what all candidates together did."""

    buckets: dict[str, Bucket] = field(default_factory=dict[str, Bucket])
    claims: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    accepted: int = 0
    """The highest epoch that the hub knows of."""

    ids: int = 0

    def new_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def bucket(self, name: str) -> Bucket:
        return self.buckets.setdefault(name, Bucket())

    @property
    def epochs(self) -> list[int]:
        return [epoch for _, epoch in self.claims]


class Endpoint:
    """An `EndpointSource` that a test changes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._changed = asyncio.Event()

    def read(self) -> str:
        return self._text

    def change(self, text: str) -> None:
        self._text = text
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, endpoint: str) -> str:
        while self._text == endpoint:
            await self._changed.wait()
        return self._text


class Candidate:
    """One manager: its links to the buckets, and what it does as a leader."""

    def __init__(
        self,
        regions: Regions,
        name: str,
        endpoint: str = "s3://a",
        skew: timedelta = timedelta(),
        work: Callable[[FleetTerm], None] = lambda term: None,
    ) -> None:
        self.regions = regions
        self.name = name
        self.endpoint = Endpoint(endpoint)
        self.skew = skew
        self.links: dict[str, Link] = {}
        self.leading = asyncio.Event()
        self.began = 0.0
        self.election = FleetElection(
            self.endpoint,
            find_accepted_epoch=self.find_accepted_epoch,
            open_store=self.open_store,
            identity=name,
            clock=now,
            wall=lambda: BEGIN + self.skew + timedelta(seconds=now()),
        )
        self.task = asyncio.create_task(self.run())

    def link(self, bucket: str) -> Link:
        return self.links.setdefault(bucket, Link())

    def open_store(self, endpoint: str) -> FleetStore:
        names = [str(each).removeprefix("s3://") for each in parse_endpoints(endpoint)]
        stores = [
            MemoryStore(self.regions.bucket(name), self.link(name), f"s3://{name}")
            for name in names
        ]
        if len(stores) == 1:
            return FleetStore(stores[0])
        one, two, three = stores
        return FleetStore(QuorumStore((one, two, three), new_id=self.regions.new_id))

    async def find_accepted_epoch(self) -> int:
        return self.regions.accepted

    async def run(self) -> None:
        while True:
            try:
                return await self.election.run(self.lead)
            except LeadershipLost:
                continue

    async def lead(self, term: FleetTerm) -> None:
        self.regions.claims.append((self.name, term.epoch))
        self.began = now()
        self.leading.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.clear()

    def die(self) -> None:
        """Nothing more of it reaches any bucket, not even the release of its lease."""
        for name in (*self.regions.buckets, *self.links):
            self.link(name).cut = True
        self.task.cancel()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


@dataclass
class MemoryEpochStore:
    """The API of a member."""

    epoch: int = 0

    async def read(self) -> int:
        return self.epoch

    async def raise_to(self, epoch: int) -> int:
        self.epoch = max(self.epoch, epoch)
        return self.epoch


class Member:
    """A cluster: it applies what it accepts."""

    def __init__(self) -> None:
        self.guard = EpochGuard(MemoryEpochStore())
        self.applied: list[int] = []

    async def apply(self, epoch: int) -> bool:
        try:
            await self.guard.accept(epoch)
        except EpochRefused:
            return False
        self.applied.append(epoch)
        return True
