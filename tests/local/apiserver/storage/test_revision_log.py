"""The log file: appended rows are replayed, damaged files are rejected."""

import sqlite3
from pathlib import Path

import pytest

from kilonova.local.apiserver.storage.revision_log import RevisionLog, RevisionRow, StorageError


def row(rv: int, key: str = "default/a", event: int = 0, body: bytes = b"{}") -> RevisionRow:
    return RevisionRow(rv, "pods", key, event, body)


def test_rows_are_replayed_in_order_after_reopening(tmp_path: Path) -> None:
    log = RevisionLog(tmp_path / "store.db")
    log.append([row(2), row(3, "default/b")], [], 0)
    log.append([row(4, event=1, body=b'{"x":1}')], [], 0)
    log.close()

    reopened = RevisionLog(tmp_path / "store.db")
    assert [(each.rv, each.key, each.body) for each in reopened.replay()] == [
        (2, "default/a", b"{}"),
        (3, "default/b", b"{}"),
        (4, "default/a", b'{"x":1}'),
    ]
    assert reopened.revision_range() == (0, 4)


def test_compacted_rows_are_deleted_and_revisions_not_reused(tmp_path: Path) -> None:
    log = RevisionLog(tmp_path / "store.db")
    log.append([row(2), row(3, event=2)], [], 0)
    log.append([row(4, "default/b")], [2, 3], 3)
    log.append([row(5, "default/b", 2)], [], 3)
    log.append([], [4, 5], 5)
    log.close()

    reopened = RevisionLog(tmp_path / "store.db")
    assert list(reopened.replay()) == []
    assert reopened.revision_range()[1] >= 4, "a number that was given out is never given out again"


def test_corrupt_row_stops_the_replay(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = RevisionLog(path)
    log.append([row(2, body=b'{"metadata":{"name":"precious"}}')], [], 0)
    log.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE log SET body = ?", (b'{"metadata":{"name":"tampered"}}',))
    before = path.read_bytes()

    with pytest.raises(StorageError, match=r"row 2 \(pods default/a\) fails its checksum"):
        list(RevisionLog(path).replay())
    assert path.read_bytes() == before


def test_file_that_is_not_a_database_is_rejected_unmodified(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"this is not a database but must not be overwritten" * 100)
    before = path.read_bytes()
    with pytest.raises(StorageError, match="cannot be opened"):
        RevisionLog(path)
    assert path.read_bytes() == before


def test_foreign_database_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StorageError, match="not a Kilonova store"):
        RevisionLog(path)


def test_newer_format_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    RevisionLog(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(StorageError, match="format 99"):
        RevisionLog(path)
