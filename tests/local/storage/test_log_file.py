"""The log file: what is appended is there again, what is damaged is not served."""

import sqlite3
from pathlib import Path

import pytest

from kilonova.local.storage.log import Log, Row, StorageBroken


def row(rv: int, key: str = "default/a", event: int = 0, body: bytes = b"{}") -> Row:
    return Row(rv, "pods", key, event, body)


def test_rows_come_back_in_order_after_reopening(tmp_path: Path) -> None:
    log = Log(tmp_path / "store.db")
    log.append([row(2), row(3, "default/b")], [], 0)
    log.append([row(4, event=1, body=b'{"x":1}')], [], 0)
    log.close()

    reopened = Log(tmp_path / "store.db")
    assert [(each.rv, each.key, each.body) for each in reopened.replay()] == [
        (2, "default/a", b"{}"),
        (3, "default/b", b"{}"),
        (4, "default/a", b'{"x":1}'),
    ]
    assert reopened.window() == (0, 4)


def test_dead_rows_go_and_numbers_do_not_come_back(tmp_path: Path) -> None:
    log = Log(tmp_path / "store.db")
    log.append([row(2), row(3, event=2)], [], 0)
    log.append([row(4, "default/b")], [2, 3], 3)
    log.append([row(5, "default/b", 2)], [], 3)
    log.append([], [4, 5], 5)
    log.close()

    reopened = Log(tmp_path / "store.db")
    assert list(reopened.replay()) == []
    assert reopened.window()[1] >= 4, "a number that was given out is never given out again"


def test_a_changed_byte_stops_the_replay_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = Log(path)
    log.append([row(2, body=b'{"metadata":{"name":"precious"}}')], [], 0)
    log.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE log SET body = ?", (b'{"metadata":{"name":"tampered"}}',))
    before = path.read_bytes()

    with pytest.raises(StorageBroken, match=r"row 2 \(pods default/a\) fails its checksum"):
        list(Log(path).replay())
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"this was never a database, but somebody may want it back" * 100)
    before = path.read_bytes()
    with pytest.raises(StorageBroken, match="cannot be opened"):
        Log(path)
    assert path.read_bytes() == before


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StorageBroken, match="not a Kilonova store"):
        Log(path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Log(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(StorageBroken, match="format 99"):
        Log(path)
