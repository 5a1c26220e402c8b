"""What is particular to a store in a directory: files, locks, other programs."""

import fcntl
import os
from pathlib import Path

import pytest

from kilonova.objectstore import (
    IF_ABSENT,
    ChecksumMismatch,
    DirectoryStore,
    InvalidKey,
    NotFound,
    PreconditionFailed,
    StoreNotUsable,
    Unavailable,
    if_match,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


async def test_other_programs_read_objects_as_files(root: Path) -> None:
    store = DirectoryStore(root)
    await store.put("models/llama/config.json", b"{}")
    assert (root / "models/llama/config.json").read_bytes() == b"{}"
    moved = root.rename(root.with_name("moved"))
    assert (moved / "models/llama/config.json").read_bytes() == b"{}"
    assert (await DirectoryStore(moved).get("models/llama/config.json")).body == b"{}"


async def test_files_of_other_programs_are_objects_without_checksum(root: Path) -> None:
    (root / "models").mkdir(parents=True)
    (root / "models/config.json").write_bytes(b"{}")
    store = DirectoryStore(root)
    found = await store.get("models/config.json")
    assert (found.body, found.info.checksum) == (b"{}", None)
    assert [each.key async for each in store.list()] == ["models/config.json"]
    with pytest.raises(PreconditionFailed):
        await store.put("models/config.json", b"", IF_ABSENT)
    written = await store.put("models/config.json", b"[]", if_match(found.info.etag))
    assert written.checksum is not None
    await store.delete("models/config.json")
    assert not (root / "models").exists()


async def test_reading_creates_nothing(root: Path) -> None:
    store = DirectoryStore(root)
    assert (await store.list_page()).objects == ()
    with pytest.raises(NotFound):
        await store.get("a")
    assert not root.exists()


async def test_damaged_object_is_detected(root: Path) -> None:
    store = DirectoryStore(root)
    await store.put("a", b"what was written")
    content = (root / "a").resolve()
    content.write_bytes(b"what is written")
    with pytest.raises(ChecksumMismatch, match=r"its SHA-256 is .*; restore or write"):
        await store.get("a")


async def test_key_is_no_folder_of_another(root: Path) -> None:
    store = DirectoryStore(root)
    await store.put("a", b"1")
    with pytest.raises(InvalidKey, match="choose another key"):
        await store.put("a/b", b"2")
    await store.put("b/c", b"3")
    with pytest.raises(InvalidKey):
        await store.put("b", b"4")
    assert [each.key async for each in store.list()] == ["a", "b/c"]


async def test_writes_leave_nothing_behind(root: Path) -> None:
    store = DirectoryStore(root)
    for number in range(5):
        await store.put("a", str(number).encode())
    with pytest.raises(PreconditionFailed):
        await store.put("a", b"5", IF_ABSENT)
    files = [path for path in (root / ".kilonova").rglob("*") if path.is_file()]
    assert sorted(path.name == "lock" for path in files) == [False, True]
    await store.delete("a")
    assert [path.name for path in (root / ".kilonova").rglob("*") if path.is_file()] == ["lock"]


async def test_uploads_of_crashed_writers_are_removed_after_a_day(root: Path) -> None:
    uploads = root / ".kilonova/uploads"
    uploads.mkdir(parents=True)
    (uploads / "old").write_bytes(b"")
    os.utime(uploads / "old", (0, 0))
    (uploads / "recent").write_bytes(b"")
    await DirectoryStore(root).put("a", b"")
    assert os.listdir(uploads) == ["recent"]


async def test_suspended_writer_makes_the_store_unavailable(root: Path) -> None:
    store = DirectoryStore(root, lock_timeout=0.1)
    await store.put("a", b"1")
    with open(root / ".kilonova/lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="locked by another process; see which process"):
            await store.put("a", b"2")
        assert (await store.get("a")).body == b"1"
    await store.put("a", b"2")


async def test_directory_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreNotUsable, match="cannot be created: not a directory; check its path"):
        await DirectoryStore(tmp_path / "file").put("a", b"1")
