"""The journal keeps the latest decisions, of all leaders, in their order."""

import pytest

from kilonova.fleet.documents import JOURNAL, JOURNAL_SEGMENTS, JournalEntry
from kilonova.fleet.store import FleetStore, Journal, read_journal
from kilonova.fleet.store.journal import SEGMENT_ENTRIES
from kilonova.objectstore import PreconditionFailed, Unavailable
from tests.fleet.store.stores import Bucket, MemoryStore


def entries(begin: int, end: int) -> list[JournalEntry]:
    return [JournalEntry("", 1, str(number), "") for number in range(begin, end)]


async def read(store: FleetStore) -> list[int]:
    return [int(each.what) for each in await read_journal(store)]


async def test_decisions_of_successive_leaders_are_in_order() -> None:
    store = FleetStore(MemoryStore(Bucket()))
    await Journal(store).append(entries(0, 3))
    journal = Journal(store)
    for begin in range(3, 600, 3):
        await journal.append(entries(begin, begin + 3))
    await journal.append(entries(600, 1000))
    assert await read(store) == list(range(1000))


async def test_oldest_decisions_are_overwritten() -> None:
    store = FleetStore(MemoryStore(Bucket()))
    journal = Journal(store)
    total = (JOURNAL_SEGMENTS + 3) * SEGMENT_ENTRIES
    await journal.append(entries(0, total))
    assert await read(store) == list(range(3 * SEGMENT_ENTRIES, total))
    assert len(await store.read_all(JOURNAL)) == JOURNAL_SEGMENTS


async def test_deposed_leader_does_not_overwrite_its_successor() -> None:
    store = FleetStore(MemoryStore(Bucket()))
    former = Journal(store)
    await former.append(entries(0, 1))
    await Journal(store).append(entries(1, 2))
    with pytest.raises(PreconditionFailed):
        await former.append(entries(9, 10))
    assert await read(store) == [0, 1]


async def test_failed_write_is_appended_when_it_is_repeated() -> None:
    objects = MemoryStore(Bucket())
    store = FleetStore(objects)
    journal = Journal(store)
    await journal.append(entries(0, 1))
    objects.link.cut = True
    with pytest.raises(Unavailable):
        await journal.append(entries(1, 2))
    objects.link.cut = False
    await journal.append(entries(1, 2))
    assert await read(store) == [0, 1]
