"""The store: decided at once, visible when durable, numbered without gaps or repeats."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from kilonova.local.registry.objects import read_entry
from kilonova.local.storage import (
    Entry,
    EventType,
    Log,
    Put,
    Remove,
    StorageBroken,
    Store,
    WindowExceeded,
)
from kilonova.local.storage import store as store_module
from kilonova.local.storage.log import Row
from kilonova.local.storage.store import Decide


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def open_store(path: Path | None, clock: Clock | None = None) -> Store:
    log = Log(path) if path else None
    return Store(log, lambda _, key, rv, body: read_entry(key, rv, body), clock or Clock())


def entry(key: str, rv: int, text: str = "", labels: dict[str, str] | None = None) -> Entry:
    metadata = {"uid": f"uid-of-{key}", "labels": labels or {}, "resourceVersion": str(rv)}
    body = msgspec.json.encode({"metadata": metadata, "text": text})
    return Entry(key, rv, body, f"uid-of-{key}", labels or {}, ())


async def put(store: Store, key: str, text: str = "") -> Entry:
    written = await store.write("pods", key, lambda _, rv: Put(entry(key, rv, text)))
    assert written is not None
    return written


async def remove(store: Store, key: str) -> None:
    await store.write("pods", key, lambda _, rv: Remove(entry(key, rv)))


def record_commits(store: Store) -> list[list[Row]]:
    """The rows of each commit, as they come."""
    commits: list[list[Row]] = []
    log = store._log
    assert log is not None
    append = log.append

    def recorded(rows: list[Row], dead: list[int], oldest: int) -> None:
        commits.append(list(rows))
        append(rows, dead, oldest)

    log.append = recorded  # pyright: ignore[reportAttributeAccessIssue]
    return commits


def contents(store: Store) -> dict[str, str]:
    return {each.key: each.decode()["text"] for each in store.collection("pods").between("")}


async def test_a_restart_has_the_same_objects_and_goes_on_counting(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    await put(store, "a/x", "one")
    await put(store, "a/y", "two")
    last = await put(store, "a/x", "three")
    await remove(store, "a/y")
    await store.close()

    again = open_store(tmp_path / "store.db")
    assert contents(again) == {"a/x": "three"}
    assert again.rv == last.rv + 1
    assert (await put(again, "b/z")).rv == last.rv + 2
    await again.close()


async def test_a_watch_resumes_across_a_restart_without_a_gap(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    first = await put(store, "a/x", "one")
    await put(store, "a/x", "two")
    await remove(store, "a/x")
    await store.close()

    pods = open_store(tmp_path / "store.db").collection("pods")
    seen = pods.since(pods.cursor_after(first.rv))
    assert [(event.type, event.previous is not None) for event in seen] == [
        (EventType.MODIFIED, True),
        (EventType.DELETED, True),
    ]


class HeldLog(Log):
    """A disk that takes its time: nothing is written before it is let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.released = threading.Event(), threading.Event()

    def append(self, rows: Sequence[Row], dead: Sequence[int], oldest: int) -> None:
        self.asked.set()
        assert self.released.wait(20)
        super().append(rows, dead, oldest)


@pytest.mark.parametrize("several", [False, True])
async def test_nothing_is_acknowledged_before_it_is_on_disk(tmp_path: Path, several: bool) -> None:
    log = HeldLog(tmp_path / "store.db")
    store = Store(log, lambda _, key, rv, body: read_entry(key, rv, body), Clock())

    def keep(key: str) -> Decide:
        return lambda _, rv: Put(entry(key, rv, "kept"))

    if several:
        changes = [(key, keep(key)) for key in ("a/x", "a/y")]
        writing = asyncio.ensure_future(store.write_all("pods", changes))
    else:
        writing = asyncio.ensure_future(store.write("pods", "a/x", keep("a/x"), keep("a/x")))
    unchanged = asyncio.ensure_future(store.write("pods", "a/x", lambda _, __: None))
    assert await asyncio.to_thread(log.asked.wait, 20)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not writing.done()
    assert not unchanged.done()  # it would tell of what is not on disk
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
        def decide(current: Entry | None, rv: int) -> Put:
            found.append(current)
            return Put(entry("a/x", rv, "second"))

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


async def test_writes_that_wait_share_a_commit(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    commits = record_commits(store)
    await asyncio.gather(*(put(store, f"a/{number}") for number in range(100)))
    assert sum(map(len, commits)) == 100
    assert len(commits) < 20
    await store.close()


async def test_a_write_that_changes_nothing_takes_no_number() -> None:
    store = open_store(None)
    written = await put(store, "a/x")
    assert await store.write("pods", "a/x", lambda current, rv: None) is written
    assert store.rv == written.rv


async def test_several_decisions_share_a_commit_whatever_else_is_written(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    commits = record_commits(store)
    await put(store, "a/x", "one")

    async def mark_and_remove() -> None:
        await store.write(
            "pods",
            "a/x",
            lambda _, rv: Put(entry("a/x", rv, "marked")),
            lambda _, rv: Remove(entry("a/x", rv, "marked")),
        )

    others = (put(store, f"a/{number}") for number in range(20))
    await asyncio.gather(*others, mark_and_remove(), *(put(store, f"b/{n}") for n in range(20)))
    together = [[row.event for row in rows if row.key == "a/x"] for rows in commits]
    assert [events for events in together if events] == [
        [EventType.ADDED],
        [EventType.MODIFIED, EventType.DELETED],
    ]
    await store.close()


async def test_a_refusal_leaves_everything_as_it_was() -> None:
    store = open_store(None)
    written = await put(store, "a/x", "kept")

    def refuse(current: Entry | None, rv: int) -> Put:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await store.write("pods", "a/x", refuse)
    assert contents(store) == {"a/x": "kept"}
    assert store.rv == written.rv


async def test_keys_come_in_the_order_of_kubernetes() -> None:
    store = open_store(None)
    for key in ("b/x", "a/z", "a-b/c", "a/b", "a.b/d"):
        await put(store, key)
    pods = store.collection("pods")
    assert [each.key for each in pods.between("")] == ["a-b/c", "a.b/d", "a/b", "a/z", "b/x"]
    assert [each.key for each in pods.between("a")] == ["a/b", "a/z"]
    assert [each.key for each in pods.between("a", after="a/b")] == ["a/z"]


async def test_the_past_can_be_read_within_the_window() -> None:
    store = open_store(None)
    await put(store, "a/old", "1")
    then = await put(store, "a/x", "1")
    await put(store, "a/x", "2")
    await put(store, "a/new", "1")
    await remove(store, "a/old")
    changed = store.collection("pods").as_of(then.rv)
    assert {key: each and each.decode()["text"] for key, each in changed.items()} == {
        "a/x": "1",
        "a/new": None,
        "a/old": "1",
    }


async def test_old_events_leave_the_window_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "WINDOW_EVENTS", 10)
    clock = Clock()
    store = open_store(tmp_path / "store.db", clock)
    first = await put(store, "a/x", "0")
    for number in range(1, 40):
        await put(store, "a/x", str(number))
    store.trim()
    pods = store.collection("pods")
    assert pods.cursor_after(first.rv), "young events stay, however many they are"
    clock.time += store_module.WINDOW_SECONDS + 1
    store.trim()
    with pytest.raises(WindowExceeded):
        pods.cursor_after(first.rv)
    assert len(pods.events) == 10
    last = await put(store, "a/y")
    await store.close()

    log = Log(tmp_path / "store.db")
    assert len(list(log.replay())) <= 13
    log.close()
    again = open_store(tmp_path / "store.db", clock)
    assert contents(again) == {"a/x": "39", "a/y": ""}
    assert again.rv == last.rv
    with pytest.raises(WindowExceeded):
        again.collection("pods").cursor_after(first.rv)
    await again.close()


async def test_a_watch_that_waits_is_woken_by_the_next_event() -> None:
    store = open_store(None)
    await put(store, "a/x")
    pods = store.collection("pods")
    cursor = pods.end
    waiting = asyncio.create_task(pods.changed(cursor, asyncio.get_running_loop().time() + 60))
    await asyncio.sleep(0)
    assert not waiting.done()
    await put(store, "a/y")
    await waiting
    assert [event.entry.key for event in pods.since(cursor)] == ["a/y"]


async def test_when_the_file_cannot_be_written_nothing_more_is_acknowledged(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "store.db")
    await put(store, "a/kept", "kept")
    told: list[StorageBroken] = []
    store.on_broken = told.append
    assert store._log is not None
    store._log._connection.execute("PRAGMA max_page_count=4")
    store._log._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with pytest.raises(StorageBroken, match="full"):
        await put(store, "a/lost", "x" * 100_000)
    assert [str(each) for each in told] == [str(store.broken)]
    assert contents(store) == {"a/kept": "kept"}
    with pytest.raises(StorageBroken):
        await put(store, "a/later")
    await store.close()
    assert contents(open_store(tmp_path / "store.db")) == {"a/kept": "kept"}
