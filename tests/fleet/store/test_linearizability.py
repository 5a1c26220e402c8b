"""The lease store is linearizable, whatever the network does to requests and replies.

Several clients read and replace one lease over links that lose, delay and repeat requests, and
that are cut. Each write is unique and names the version that it replaces, so that all writes that
took effect are one chain: a history is linearizable if the chain has no branch, and if its order
agrees with the order of operations that did not overlap.
"""

import asyncio
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.fleet.store.lease import ObjectLeaseStore
from kilonova.fleet.store.quorum import QuorumStore
from kilonova.kube.election import LeaseConflict, LeaseRecord, LeaseUnavailable
from kilonova.local.virtual_time import run
from kilonova.objectstore import ObjectStore
from tests.fleet.store.stores import Bucket, Link, MemoryStore
from tests.harness.campaigns import limit_examples

CLIENTS = 3
STEPS = 12
ABSENT = ""


@dataclass(frozen=True)
class Operation:
    """What a client did and saw; writes are named by what they wrote."""

    begin: float
    end: float
    seen: str | None
    """What was read or written; None if that is not known."""
    is_write: bool


@dataclass
class History:
    """All operations, and of each write that may have taken effect what it replaced."""

    operations: list[Operation] = field(default_factory=list[Operation])
    replaced: dict[str, str] = field(default_factory=dict[str, str])
    effective: set[str] = field(default_factory=set[str])
    conflicts: set[str] = field(default_factory=set[str])

    def check(self) -> None:
        """Raise AssertionError unless the history is linearizable."""
        effective = set(self.effective)
        for each in self.effective:
            while (each := self.replaced[each]) != ABSENT:
                effective.add(each)
        assert not effective & self.conflicts, "a write that conflicted took effect"
        parents = [self.replaced[each] for each in effective]
        assert len(set(parents)) == len(parents), "two writes replaced the same version"
        following = {self.replaced[each]: each for each in effective}
        position, version = {ABSENT: 0}, ABSENT
        while version in following:
            version = following[version]
            position[version] = len(position)
        known = [each for each in self.operations if each.seen is not None]
        for one, other in combinations(known, 2):
            first, second = (one, other) if one.end < other.begin else (other, one)
            if first.end < second.begin and first.seen is not None and second.seen is not None:
                before, after = position[first.seen], position[second.seen]
                assert before <= after - second.is_write, (
                    f"not {before} <= {after}: {first} {second}"
                )


@dataclass
class Experiment:
    """One run with one seed."""

    seed: int
    stores: int
    loss: float
    delay: float

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.history = History()
        self.buckets = [Bucket() for _ in range(self.stores)]

    async def run(self) -> None:
        links = [
            [Link(delay=self.delay, loss=self.loss, random=self.random) for _ in self.buckets]
            for _ in range(CLIENTS)
        ]
        partitions = asyncio.create_task(self.cut_links([each for some in links for each in some]))
        clients = [self.connect(each) for each in links]
        await asyncio.gather(
            *(self.use(str(name), ObjectLeaseStore(each)) for name, each in enumerate(clients))
        )
        partitions.cancel()
        for client in clients:
            await client.close()
        await asyncio.sleep(30)  # what was late has arrived
        final = self.connect([Link() for _ in self.buckets])
        begin = now()
        lease = await ObjectLeaseStore(final).read()
        self.add(begin, lease.record.renewed if lease else ABSENT, is_write=False)
        await final.close()
        self.history.check()

    def connect(self, links: list[Link]) -> ObjectStore:
        stores = [
            MemoryStore(bucket, link) for bucket, link in zip(self.buckets, links, strict=True)
        ]
        if len(stores) == 1:
            return stores[0]
        one, two, three = stores
        return QuorumStore((one, two, three), new_id=lambda: f"{self.random.getrandbits(64):x}")

    async def cut_links(self, links: list[Link]) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0, 2))
            link = self.random.choice(links)
            link.cut = not link.cut and self.random.random() < 0.5

    async def use(self, client: str, store: ObjectLeaseStore) -> None:
        for step in range(STEPS):
            await asyncio.sleep(self.random.uniform(0, 0.5))
            begin = now()
            try:
                async with asyncio.timeout(5):
                    lease = await store.read()
            except (LeaseUnavailable, TimeoutError):
                continue
            seen = lease.record.renewed if lease else ABSENT
            self.add(begin, seen, is_write=False)
            await asyncio.sleep(self.random.choice([0, 0, self.random.uniform(0, 2)]))
            version = None if lease is None else lease.version
            for repeat in range(self.random.randrange(3)):
                version = await self.write(store, f"{client}-{step}-{repeat}", seen, version)
                if version is None:
                    break
                seen = f"{client}-{step}-{repeat}"

    async def write(
        self, store: ObjectLeaseStore, name: str, replaced: str, version: str | None
    ) -> str | None:
        """The new version; None if it was not written, or if that is not known."""
        record = LeaseRecord("someone", 15, "", name, 0)
        begin = now()
        self.history.replaced[name] = replaced
        try:
            async with asyncio.timeout(5):
                if version is None:
                    lease = await store.create(record)
                else:
                    lease = await store.replace(record, version)
        except LeaseConflict:
            self.history.conflicts.add(name)
            return None
        except (LeaseUnavailable, TimeoutError):
            return None
        self.add(begin, name, is_write=True)
        return lease.version

    def add(self, begin: float, seen: str, *, is_write: bool) -> None:
        self.history.operations.append(Operation(begin, now(), seen, is_write))
        if seen != ABSENT:
            self.history.effective.add(seen)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("stores", [1, 3])
@settings(max_examples=limit_examples(200))
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 0.05, 0.2, 0.4]),
    delay=st.sampled_from([0.0, 0.01, 0.3, 2.0]),
)
def test_lease_store_is_linearizable(stores: int, seed: int, loss: float, delay: float) -> None:
    run(Experiment(seed, stores, loss, delay).run, seed=seed)


def build_history(*writes: tuple[str, str], reads: tuple[tuple[float, str], ...] = ()) -> History:
    history = History(replaced=dict(writes), effective={name for name, _ in writes})
    history.operations = [Operation(at, at, seen, False) for at, seen in reads]
    return history


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        (build_history(("a", ABSENT), ("b", "a"), ("c", "a")), "same version"),
        (build_history(("a", ABSENT), ("b", "a"), reads=((1, "b"), (2, "a"))), "<= "),
        (build_history(("a", ABSENT), reads=((1, "a"), (2, ABSENT))), "<= "),
    ],
)
def test_check_finds_histories_that_are_not_linearizable(history: History, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        history.check()
