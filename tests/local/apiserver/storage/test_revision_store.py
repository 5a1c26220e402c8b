"""The store: decided synchronously, visible when durable, numbered without gaps or repeats."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from kilonova.local.apiserver.registry.encoding import read_entry
from kilonova.local.apiserver.storage import (
    Entry,
    EventType,
    PutEntry,
    RemoveEntry,
    RevisionCompacted,
    RevisionLog,
    RevisionStore,
    StorageError,
)
from kilonova.local.apiserver.storage import revision_store as store_module
from kilonova.local.apiserver.storage.revision_log import RevisionRow
from kilonova.local.apiserver.storage.revision_store import UpdateFunction


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def open_store(path: Path | None, clock: Clock | None = None) -> RevisionStore:
    log = RevisionLog(path) if path else None
    return RevisionStore(log, lambda _, key, rv, body: read_entry(key, rv, body), clock or Clock())


def entry(key: str, rv: int, text: str = "", labels: dict[str, str] | None = None) -> Entry:
    metadata = {"uid": f"uid-of-{key}", "labels": labels or {}, "resourceVersion": str(rv)}
    body = msgspec.json.encode({"metadata": metadata, "text": text})
    return Entry(key, rv, body, f"uid-of-{key}", labels or {}, ())


async def put(store: RevisionStore, key: str, text: str = "") -> Entry:
    response = await store.write("pods", key, lambda _, rv: PutEntry(entry(key, rv, text)))
    assert response is not None
    return response


async def remove(store: RevisionStore, key: str) -> None:
    await store.write("pods", key, lambda _, rv: RemoveEntry(entry(key, rv)))


def record_commits(store: RevisionStore) -> list[list[RevisionRow]]:
    """The rows of each commit, as they are appended."""
    commits: list[list[RevisionRow]] = []
    log = store._log
    assert log is not None
    append = log.append

    def recorded(rows: list[RevisionRow], dead: list[int], oldest: int) -> None:
        commits.append(list(rows))
        append(rows, dead, oldest)

    log.append = recorded  # pyright: ignore[reportAttributeAccessIssue]
    return commits


def contents(store: RevisionStore) -> dict[str, str]:
    return {each.key: each.decode()["text"] for each in store.collection("pods").range_entries("")}


async def test_restart_keeps_objects_and_continues_revisions(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    await put(store, "a/x", "one")
    await put(store, "a/y", "two")
    last = await put(store, "a/x", "three")
    await remove(store, "a/y")
    await store.close()

    again = open_store(tmp_path / "store.db")
    assert contents(again) == {"a/x": "three"}
    assert again.revision == last.rv + 1
    assert (await put(again, "b/z")).rv == last.rv + 2
    await again.close()


async def test_watch_resumes_across_a_restart_without_a_gap(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    first = await put(store, "a/x", "one")
    await put(store, "a/x", "two")
    await remove(store, "a/x")
    await store.close()

    pods = open_store(tmp_path / "store.db").collection("pods")
    seen = pods.events_since(pods.cursor_after_revision(first.rv))
    assert [(event.type, event.previous is not None) for event in seen] == [
        (EventType.MODIFIED, True),
        (EventType.DELETED, True),
    ]


class HeldLog(RevisionLog):
    """A slow disk: nothing is written before it is released."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.started, self.released = threading.Event(), threading.Event()

    def append(self, rows: Sequence[RevisionRow], compacted: Sequence[int], oldest: int) -> None:
        self.started.set()
        assert self.released.wait(20)
        super().append(rows, compacted, oldest)


@pytest.mark.parametrize("several", [False, True])
async def test_nothing_is_acknowledged_before_it_is_on_disk(tmp_path: Path, several: bool) -> None:
    log = HeldLog(tmp_path / "store.db")
    store = RevisionStore(log, lambda _, key, rv, body: read_entry(key, rv, body), Clock())

    def keep(key: str) -> UpdateFunction:
        return lambda _, rv: PutEntry(entry(key, rv, "kept"))

    if several:
        changes = [(key, keep(key)) for key in ("a/x", "a/y")]
        writing = asyncio.ensure_future(store.write_all("pods", changes))
    else:
        writing = asyncio.ensure_future(store.write("pods", "a/x", keep("a/x"), keep("a/x")))
    unchanged = asyncio.ensure_future(store.write("pods", "a/x", lambda _, __: None))
    assert await asyncio.to_thread(log.started.wait, 20)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not writing.done()
    assert not unchanged.done()  # it would expose an entry that is not on disk
    assert contents(store) == {}
    log.released.set()
    await asyncio.gather(writing, unchanged)
    assert contents(store)["a/x"] == "kept"
    await store.close()


async def test_writers_see_what_is_proposed_and_readers_only_what_is_durable(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "store.db")
    pods = store.collection("pods")
    found: list[Entry | None] = []

    async def second() -> None:
        def decide(current: Entry | None, rv: int) -> PutEntry:
            found.append(current)
            return PutEntry(entry("a/x", rv, "second"))

        await store.write("pods", "a/x", decide)

    first = asyncio.create_task(put(store, "a/x", "first"))
    other = asyncio.create_task(second())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert pods.get("a/x") is None, "nothing is on disk yet"
    assert found
    assert found[0] is not None
    assert found[0].decode()["text"] == "first"
    await asyncio.gather(first, other)
    assert contents(store) == {"a/x": "second"}
    await store.close()


async def test_pending_writes_share_a_commit(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    commits = record_commits(store)
    await asyncio.gather(*(put(store, f"a/{number}") for number in range(100)))
    assert sum(map(len, commits)) == 100
    assert len(commits) < 20
    await store.close()


async def test_write_without_change_uses_no_revision() -> None:
    store = open_store(None)
    entry = await put(store, "a/x")
    assert await store.write("pods", "a/x", lambda current, rv: None) is entry
    assert store.revision == entry.rv


async def test_several_update_functions_share_a_commit(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    commits = record_commits(store)
    await put(store, "a/x", "one")

    async def mark_and_remove() -> None:
        await store.write(
            "pods",
            "a/x",
            lambda _, rv: PutEntry(entry("a/x", rv, "marked")),
            lambda _, rv: RemoveEntry(entry("a/x", rv, "marked")),
        )

    others = (put(store, f"a/{number}") for number in range(20))
    await asyncio.gather(*others, mark_and_remove(), *(put(store, f"b/{n}") for n in range(20)))
    together = [[row.event for row in rows if row.key == "a/x"] for rows in commits]
    assert [events for events in together if events] == [
        [EventType.ADDED],
        [EventType.MODIFIED, EventType.DELETED],
    ]
    await store.close()


async def test_rejected_write_changes_nothing() -> None:
    store = open_store(None)
    entry = await put(store, "a/x", "kept")

    def reject(current: Entry | None, rv: int) -> PutEntry:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await store.write("pods", "a/x", reject)
    assert contents(store) == {"a/x": "kept"}
    assert store.revision == entry.rv


async def test_keys_are_in_kubernetes_order() -> None:
    store = open_store(None)
    for key in ("b/x", "a/z", "a-b/c", "a/b", "a.b/d"):
        await put(store, key)
    pods = store.collection("pods")
    assert [each.key for each in pods.range_entries("")] == ["a-b/c", "a.b/d", "a/b", "a/z", "b/x"]
    assert [each.key for each in pods.range_entries("a")] == ["a/b", "a/z"]
    assert [each.key for each in pods.range_entries("a", after="a/b")] == ["a/z"]


async def test_past_revisions_in_the_watch_cache_can_be_read() -> None:
    store = open_store(None)
    await put(store, "a/old", "1")
    then = await put(store, "a/x", "1")
    await put(store, "a/x", "2")
    await put(store, "a/new", "1")
    await remove(store, "a/old")
    changed = store.collection("pods").changes_since_revision(then.rv)
    assert {key: each and each.decode()["text"] for key, each in changed.items()} == {
        "a/x": "1",
        "a/new": None,
        "a/old": "1",
    }


async def test_old_events_are_trimmed_from_watch_cache_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "WATCH_CACHE_EVENTS", 10)
    clock = Clock()
    store = open_store(tmp_path / "store.db", clock)
    first = await put(store, "a/x", "0")
    for number in range(1, 40):
        await put(store, "a/x", str(number))
    store.trim_watch_cache()
    pods = store.collection("pods")
    assert pods.cursor_after_revision(first.rv), "young events stay, however many they are"
    clock.time += store_module.WATCH_CACHE_SECONDS + 1
    store.trim_watch_cache()
    with pytest.raises(RevisionCompacted):
        pods.cursor_after_revision(first.rv)
    assert len(pods.events) == 10
    last = await put(store, "a/y")
    await store.close()

    log = RevisionLog(tmp_path / "store.db")
    assert len(list(log.replay())) <= 13
    log.close()
    again = open_store(tmp_path / "store.db", clock)
    assert contents(again) == {"a/x": "39", "a/y": ""}
    assert again.revision == last.rv
    with pytest.raises(RevisionCompacted):
        again.collection("pods").cursor_after_revision(first.rv)
    await again.close()


async def test_waiting_watch_is_woken_by_the_next_event() -> None:
    store = open_store(None)
    await put(store, "a/x")
    pods = store.collection("pods")
    cursor = pods.end_cursor
    waiting = asyncio.create_task(pods.wait_changed(cursor, asyncio.get_running_loop().time() + 60))
    await asyncio.sleep(0)
    assert not waiting.done()
    await put(store, "a/y")
    await waiting
    assert [event.entry.key for event in pods.events_since(cursor)] == ["a/y"]


async def test_nothing_is_acknowledged_after_a_write_error(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "store.db")
    await put(store, "a/kept", "kept")
    errors: list[StorageError] = []
    store.on_failure = errors.append
    assert store._log is not None
    store._log._connection.execute("PRAGMA max_page_count=4")
    store._log._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with pytest.raises(StorageError, match="full"):
        await put(store, "a/lost", "x" * 100_000)
    assert [str(each) for each in errors] == [str(store.failure)]
    assert contents(store) == {"a/kept": "kept"}
    with pytest.raises(StorageError):
        await put(store, "a/later")
    await store.close()
    assert contents(open_store(tmp_path / "store.db")) == {"a/kept": "kept"}
