"""Three stores as one: any two suffice, and the third catches up. Virtual time."""

import asyncio
from collections.abc import Callable

import pytest

from kilonova.fleet.store.quorum import QuorumStore
from kilonova.objectstore import IF_ABSENT, NotFound, PreconditionFailed, Unavailable, if_match
from tests.fleet.store.stores import Bucket, Link, MemoryStore

pytestmark = pytest.mark.looptime

KEY = "quorum/k"


class Places:
    """Three buckets, and the links of one client to them."""

    def __init__(self, buckets: tuple[Bucket, ...] | None = None) -> None:
        self.buckets = buckets or (Bucket(), Bucket(), Bucket())
        self.links = (Link(), Link(), Link())
        one, two, three = (
            MemoryStore(bucket, link, f"s3://{name}")
            for bucket, link, name in zip(self.buckets, self.links, "abc", strict=True)
        )
        self.store = QuorumStore((one, two, three))

    @property
    def requests(self) -> int:
        return sum(each.requests for each in self.links)


@pytest.fixture
async def places() -> Places:
    return Places()


def cut(link: Link) -> None:
    link.cut = True


def hang(link: Link) -> None:
    link.hanging = True


@pytest.mark.parametrize("fail", [cut, hang])
@pytest.mark.parametrize("lost", [0, 1, 2])
async def test_one_lost_store_changes_nothing(
    places: Places, lost: int, fail: Callable[[Link], None]
) -> None:
    store = places.store
    first = await store.put("k", b"1")
    fail(places.links[lost])
    async with asyncio.timeout(1):
        second = await store.put("k", b"2", if_match(first.etag))
        with pytest.raises(PreconditionFailed):
            await store.put("k", b"3", if_match(first.etag))
        assert (await store.get("k")).info.etag == second.etag
        await store.put("other", b"", IF_ABSENT)
        assert [each.key async for each in store.list()] == ["k", "other"]
        await store.delete("other")
        with pytest.raises(NotFound):
            await store.get("other")
        assert [each.key async for each in store.list()] == ["k"]
    await store.close()


async def test_two_lost_stores_are_reported(places: Places) -> None:
    await places.store.put("k", b"1")
    places.links[0].cut = places.links[2].cut = True
    message = "fewer than two of three stores are available: s*"
    for failing in (
        places.store.get("k"),
        places.store.put("k", b"2"),
        places.store.list_page(),
    ):
        with pytest.raises(Unavailable, match=message):
            await failing


async def test_store_that_returns_is_repaired(places: Places) -> None:
    store = places.store
    await store.put("k", b"1")
    places.links[1].cut = True
    for number in range(2, 5):
        await store.put("k", str(number).encode())
    places.links[1].cut = False
    assert not places.buckets[1].objects[KEY].endswith(b"4")
    other = Places(places.buckets)
    other.links[0].cut = True
    assert (await other.store.get("k")).body == b"4"
    assert places.buckets[1].objects[KEY].endswith(b"\n4")


async def test_write_that_reached_one_store_takes_effect_once_or_never(places: Places) -> None:
    store = places.store
    first = await store.put("k", b"1")
    places.links[1].cut = places.links[2].cut = True
    with pytest.raises(Unavailable):
        await store.put("k", b"2", if_match(first.etag))
    seen: list[bytes] = []
    for lost in (0, 0, 1, 2, 0, 1):
        other = Places(places.buckets)
        other.links[lost].cut = True
        seen.append((await other.store.get("k")).body)
    assert seen == [b"1", b"1", b"2", b"2", b"2", b"2"]


async def test_renewal_costs_one_request_to_each_store(places: Places) -> None:
    info = await places.store.put("k", b"0")
    begin = places.requests
    for number in range(10):
        info = await places.store.put("k", str(number).encode(), if_match(info.etag))
        await asyncio.sleep(0)
    await asyncio.sleep(1)
    assert places.requests - begin <= 3 * 10 * 2, "each request counts when sent and when answered"


async def test_list_reads_only_what_has_changed(places: Places) -> None:
    for number in range(20):
        await places.store.put(f"d/{number}", b"x")
    await asyncio.sleep(1)
    reader = Places(places.buckets)
    assert len([each async for each in reader.store.list("d/")]) == 20
    begin = reader.requests
    assert len([each async for each in reader.store.list("d/")]) == 20
    assert reader.requests - begin <= 3 * 2
    await places.store.put("d/7", b"changed")
    await asyncio.sleep(1)
    begin = reader.requests
    found = {each.key: each.size async for each in reader.store.list("d/")}
    assert (found["d/7"], found["d/8"]) == (7, 1)
    assert reader.requests - begin <= 2 * 3 * 2


async def test_hanging_store_gets_few_requests_until_it_answers(places: Places) -> None:
    await places.store.put("k", b"0")
    places.links[2].hanging = True
    for number in range(50):
        await places.store.put("k", str(number).encode())
        await asyncio.sleep(1)
    assert places.links[2].requests < 50
    places.links[2].hanging = False
    await asyncio.sleep(10)
    places.links[0].cut = True
    assert (await places.store.get("k")).body == b"49", "those that hung have been given up"
    await places.store.close()


async def test_content_of_another_program_counts_as_a_failed_store(places: Places) -> None:
    await places.store.put("k", b"1")
    places.buckets[0].objects[KEY] = b"something else"
    assert (await places.store.get("k")).body == b"1"
    places.buckets[1].objects[KEY] = b"\n"
    with pytest.raises(Unavailable, match="its first line is invalid"):
        await places.store.get("k")
