"""What a leader keeps in the store."""

from kilonova.fleet.documents import JOURNAL, JournalEntry, SavedObject
from kilonova.fleet.manager.fleet_state import FleetState
from kilonova.fleet.manager.hub import ObjectId
from kilonova.fleet.store import FleetStore, FleetTerm
from kilonova.kube.election import LeaderElectionTiming, Leadership
from tests.fleet.store.stores import Bucket, MemoryStore


def lead(bucket: Bucket, epoch: int) -> FleetState:
    leadership = Leadership("test", epoch, 0.0, LeaderElectionTiming(), lambda: 0.0)
    return FleetState(FleetTerm(FleetStore(MemoryStore(bucket)), epoch, leadership))


def entries(first: int, count: int) -> list[JournalEntry]:
    time = "2026-03-01T12:00:00Z"
    return [JournalEntry(time, 1, f"decision {first + index}", "") for index in range(count)]


async def test_journal_goes_on_with_the_next_leader_and_overwrites_its_oldest_part() -> None:
    bucket = Bucket()
    first = lead(bucket, 1)
    await first.load()
    await first.record(entries(0, 250))
    second = lead(bucket, 2)
    await second.load()
    await second.record(entries(250, 6400))
    found = [each.document for each in await second.store.read_all(JOURNAL)]
    segments = sorted(found, key=lambda each: each.number)
    assert [each.number for each in segments] == list(range(3, 67))
    decided = [entry.what for each in segments for entry in each.entries]
    assert decided == [f"decision {number}" for number in range(300, 6650)]


async def test_desired_document_is_written_anew_by_each_leader() -> None:
    bucket = Bucket()
    first = lead(bucket, 1)
    await first.load()
    assert await first.order("a", (), "")
    assert not await first.order("a", (), "")
    second = lead(bucket, 2)
    await second.load()
    assert await second.order("a", (), ""), "members learn the new epoch"
    document = second.desired["a"].document
    assert (document.epoch, document.sequence) == (2, 2)


async def test_saved_objects_have_the_epoch_of_their_leader() -> None:
    bucket = Bucket()
    state = lead(bucket, 7)
    await state.load()
    await state.save(SavedObject(kind="Release", namespace="team", name="v1", epoch=0))
    successor = lead(bucket, 8)
    await successor.load()
    saved = successor.saved[ObjectId("Release", "team", "v1")].document
    assert (saved.epoch, saved.sequence) == (7, 1)
