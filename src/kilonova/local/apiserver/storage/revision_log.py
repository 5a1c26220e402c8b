"""The file: an append-only log in SQLite whose row id is the resourceVersion (as in kine).

A row is one change and contains the whole object after it, with a checksum. Replaying the rows in
order gives the state. Rows that no replay needs any more (superseded, and older than the watch
cache) are deleted along with later appends.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

_APPLICATION_ID = 0x4B4E4F56
_FORMAT = 1

_TABLES = """
CREATE TABLE IF NOT EXISTS log (
  rv INTEGER PRIMARY KEY, resource TEXT NOT NULL, key TEXT NOT NULL, event INTEGER NOT NULL,
  body BLOB NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS window (
  id INTEGER PRIMARY KEY CHECK (id = 1), oldest INTEGER, last INTEGER
);
INSERT OR IGNORE INTO window VALUES (1, 0, 0);
"""


class Durability(Enum):
    """The durability of a commit: FULL survives power loss, NORMAL only a crash of the process."""

    FULL = "FULL"
    NORMAL = "NORMAL"


class StorageError(Exception):
    """The file cannot be read or written. No further write is acknowledged; nothing is repaired."""


class RevisionRow(NamedTuple):
    rv: int
    resource: str
    key: str
    event: int
    body: bytes


class RevisionLog:
    """One open log file. Not for concurrent use: one call at a time, from any thread."""

    def __init__(self, path: Path, durability: Durability = Durability.FULL) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._create_tables(durability)
        except sqlite3.DatabaseError as error:
            raise self._storage_error("opened", error) from error

    def _create_tables(self, durability: Durability) -> None:
        execute = self._connection.execute
        found = execute("PRAGMA application_id").fetchone()[0]
        version = execute("PRAGMA user_version").fetchone()[0]
        tables = execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and (found != _APPLICATION_ID or version != _FORMAT):
            raise StorageError(
                f"{self.path} is not a Kilonova store of format {_FORMAT} "
                f"(application id {found:#x}, format {version}): use another directory with "
                "--data DIR"
            )
        execute("PRAGMA journal_mode=WAL")
        execute(f"PRAGMA synchronous={durability.value}")
        execute("PRAGMA wal_autocheckpoint=4000")
        if not tables:
            execute(f"PRAGMA application_id={_APPLICATION_ID}")
            execute(f"PRAGMA user_version={_FORMAT}")
            self._connection.executescript(_TABLES)

    def revision_range(self) -> tuple[int, int]:
        """The oldest resourceVersion that a watch may resume from, and the newest one."""
        oldest, last = self._connection.execute("SELECT oldest, last FROM window").fetchone()
        newest = self._connection.execute("SELECT max(rv) FROM log").fetchone()[0] or 0
        return oldest, max(last, newest)

    def replay(self) -> Iterator[RevisionRow]:
        """Every row, oldest first. Stops with an error at a damaged row: a wrong state is worse
        than none.
        """
        try:
            rows = self._connection.execute(
                "SELECT rv, resource, key, event, body, checksum FROM log ORDER BY rv"
            )
            for rv, resource, key, event, body, checksum in rows:
                row = RevisionRow(rv, resource, key, event, body)
                # A damaged page may return NULL where the table forbids it.
                if not isinstance(body, bytes) or _checksum(row) != checksum:
                    raise StorageError(
                        f"{self.path} is damaged: row {rv} ({resource} {key}) fails its checksum. "
                        "Nothing was changed. Restore a backup of the data directory, or use "
                        "another with --data DIR"
                    )
                yield row
        except sqlite3.DatabaseError as error:
            raise self._storage_error("read", error) from error

    def append(self, rows: Sequence[RevisionRow], compacted: Sequence[int], oldest: int) -> None:
        """Commit `rows` and delete the rows numbered in `compacted`, in one transaction."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)",
                [(*row, _checksum(row)) for row in rows],
            )
            if compacted:
                connection.executemany("DELETE FROM log WHERE rv = ?", [(rv,) for rv in compacted])
                last = rows[-1].rv if rows else 0
                connection.execute(
                    "UPDATE window SET oldest = ?, last = max(last, ?)", (oldest, last)
                )
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise self._storage_error("written", error) from error

    def close(self) -> None:
        self._connection.close()

    def _storage_error(self, verb: str, error: sqlite3.DatabaseError) -> StorageError:
        hint = (
            "free some disk space and restart: all acknowledged writes are kept"
            if "full" in str(error) or "disk I/O" in str(error)
            else "restore a backup of the data directory, or use another with --data DIR; "
            "nothing was changed"
        )
        return StorageError(f"{self.path} cannot be {verb}: {error}. To recover: {hint}")


def _checksum(row: RevisionRow) -> int:
    head = f"{row.rv} {row.resource} {row.key} {row.event}".encode()
    return crc32(row.body, crc32(head))
