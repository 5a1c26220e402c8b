"""What every object store does."""

import asyncio
import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest

from kilonova.objectstore import (
    IF_ABSENT,
    InvalidKey,
    NotFound,
    ObjectStore,
    ObjectTooLarge,
    PreconditionFailed,
    if_match,
)
from tests.objectstore.conftest import Stores

WRITERS = 12
PART = 5 * 1024 * 1024
LARGE = 2 * 8 * 1024 * 1024 + 12345
"""More than two parts of the default size."""


async def test_object_is_read_as_written(store: ObjectStore) -> None:
    written = await store.put("models/llama/config.json", b"{}")
    found = await store.get("models/llama/config.json")
    assert found.body == b"{}"
    assert (found.info.key, found.info.size) == ("models/llama/config.json", 2)
    assert found.info.etag == written.etag
    assert found.info.checksum == written.checksum is not None
    assert await store.head("models/llama/config.json") == found.info
    assert abs(datetime.now(UTC) - written.modified) < timedelta(minutes=10)


async def test_empty_object_is_an_object(store: ObjectStore) -> None:
    await store.put("empty", b"")
    assert (await store.get("empty")).body == b""


async def test_object_is_replaced_as_a_whole(store: ObjectStore) -> None:
    first = await store.put("a", b"a long first version")
    second = await store.put("a", b"short")
    assert first.etag != second.etag
    assert (await store.get("a")).body == b"short"


async def test_missing_object_is_not_found(store: ObjectStore) -> None:
    with pytest.raises(NotFound, match="none: there is no such object"):
        await store.get("none")
    with pytest.raises(NotFound):
        await store.head("none")
    await store.put("a", b"1")
    with pytest.raises(NotFound):
        await store.get("a/below")


async def test_deleted_object_is_gone_and_its_key_free(store: ObjectStore) -> None:
    await store.put("a/b", b"1")
    await store.delete("a/b")
    await store.delete("a/b")
    with pytest.raises(NotFound):
        await store.get("a/b")
    assert await list_keys(store) == []
    await store.put("a/b", b"2", IF_ABSENT)
    assert (await store.get("a/b")).body == b"2"


async def test_object_is_created_once(store: ObjectStore) -> None:
    await store.put("lease", b"one", IF_ABSENT)
    with pytest.raises(PreconditionFailed):
        await store.put("lease", b"two", IF_ABSENT)
    assert (await store.get("lease")).body == b"one"


async def test_only_the_version_that_was_read_is_replaced(store: ObjectStore) -> None:
    first = await store.put("lease", b"one")
    second = await store.put("lease", b"two", if_match(first.etag))
    with pytest.raises(PreconditionFailed):
        await store.put("lease", b"three", if_match(first.etag))
    assert (await store.get("lease")).info.etag == second.etag
    await store.delete("lease")
    with pytest.raises(PreconditionFailed):
        await store.put("lease", b"four", if_match(second.etag))
    with pytest.raises(NotFound):
        await store.get("lease")


async def test_one_of_many_writers_creates_an_object(stores: Stores) -> None:
    clients = [stores.open() for _ in range(3)]
    for attempt in range(3):
        results = await asyncio.gather(
            *(
                clients[number % 3].put(f"lease-{attempt}", str(number).encode(), IF_ABSENT)
                for number in range(WRITERS)
            ),
            return_exceptions=True,
        )
        winners = [n for n, each in enumerate(results) if not isinstance(each, BaseException)]
        assert len(winners) == 1
        losers = [each for each in results if isinstance(each, BaseException)]
        assert {type(each) for each in losers} == {PreconditionFailed}
        found = await clients[0].get(f"lease-{attempt}")
        assert found.body == str(winners[0]).encode()


async def test_no_increment_of_a_counter_is_lost(stores: Stores) -> None:
    first = stores.open()
    await first.put("counter", b"0")

    async def increment(store: ObjectStore, times: int) -> None:
        while times:
            found = await store.get("counter")
            following = str(int(found.body) + 1).encode()
            try:
                await store.put("counter", following, if_match(found.info.etag))
            except PreconditionFailed:
                continue
            times -= 1

    await asyncio.gather(*(increment(stores.open(), 5) for _ in range(4)))
    assert (await first.get("counter")).body == b"20"


async def test_large_stream_is_written_and_read_in_pieces(store: ObjectStore) -> None:
    content = os.urandom(LARGE)
    written = await store.upload("weights.bin", split(content, 1_000_003))
    assert written.size == LARGE
    async with store.open("weights.bin") as reader:
        assert reader.info.size == LARGE
        assert reader.info.checksum == written.checksum is not None
        pieces = [piece async for piece in reader]
    assert len(pieces) > 1
    assert b"".join(pieces) == content


async def test_small_stream_is_written(store: ObjectStore) -> None:
    await store.upload("note", split(b"hello", 2), IF_ABSENT)
    assert (await store.get("note")).body == b"hello"
    with pytest.raises(PreconditionFailed):
        await store.upload("note", split(b"again", 2), IF_ABSENT)


async def test_large_stream_with_a_precondition_is_created_once(store: ObjectStore) -> None:
    content = bytes(8 * 1024 * 1024 + 1)
    await store.upload("weights.bin", split(content, PART), IF_ABSENT)
    with pytest.raises(PreconditionFailed):
        await store.upload("weights.bin", split(content, PART), IF_ABSENT)
    assert [each.size async for each in store.list()] == [len(content)]


async def test_failed_stream_changes_nothing(store: ObjectStore) -> None:
    await store.put("weights.bin", b"old")

    async def fail() -> AsyncGenerator[bytes]:
        for _ in range(3):
            yield bytes(PART)
        raise ValueError("the source is broken")

    with pytest.raises(ValueError, match="broken"):
        await store.upload("weights.bin", fail())
    assert (await store.get("weights.bin")).body == b"old"


async def test_get_does_not_read_more_than_expected(store: ObjectStore) -> None:
    await store.put("a", bytes(1000))
    with pytest.raises(ObjectTooLarge, match="1000 bytes, more than the 999"):
        await store.get("a", max_bytes=999)


async def test_reader_keeps_the_version_that_it_opened(store: ObjectStore) -> None:
    await store.put("a", b"old" * 100)
    async with store.open("a") as reader:
        await store.put("a", b"new")
        assert b"".join([piece async for piece in reader]) == b"old" * 100


async def test_objects_are_listed_in_order_by_prefix_and_page(store: ObjectStore) -> None:
    keys = ["a-b/x", "a.txt", "a/b/c", "a/b/d", "a/c", "b", "ä/1"]
    for key in reversed(keys):
        await store.put(key, key.encode())
    assert await list_keys(store) == keys
    assert await list_keys(store, "a/") == ["a/b/c", "a/b/d", "a/c"]
    assert await list_keys(store, "a/b") == ["a/b/c", "a/b/d"]
    assert await list_keys(store, "a") == ["a-b/x", "a.txt", "a/b/c", "a/b/d", "a/c"]
    assert await list_keys(store, "none/") == []
    seen: list[str] = []
    after = ""
    while True:
        page = await store.list_page("a", after, limit=2)
        assert len(page.objects) <= 2
        seen += [each.key for each in page.objects]
        if not page.next_after:
            break
        after = page.next_after
    assert seen == [key for key in keys if key.startswith("a")]
    (listed,) = [each async for each in store.list("b")]
    assert (listed.size, listed.etag) == (1, (await store.head("b")).etag)


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "../a", "a/./b", "a\nb", "x" * 1025, ".kilonova/lock"]
)
async def test_invalid_key_is_rejected(store: ObjectStore, key: str) -> None:
    with pytest.raises(InvalidKey):
        await store.put(key, b"")


@pytest.mark.parametrize("prefix", ["/etc", "../", "a//"])
async def test_invalid_prefix_is_rejected(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(InvalidKey):
        await store.list_page(prefix)


async def list_keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [each.key async for each in store.list(prefix)]


async def split(content: bytes, size: int) -> AsyncGenerator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]
