"""The file: an append-only log in SQLite whose row id is the resourceVersion.

A row is one change and holds the whole object after it, with a checksum. The state is what
replaying the rows in order gives. Rows that no replay needs any more (superseded, and past
the window that watches may resume in) are removed along with later appends.
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
    """How sure a commit is: FULL survives loss of power, NORMAL only a crash of the process."""

    FULL = "FULL"
    NORMAL = "NORMAL"


class StorageBroken(Exception):
    """The file cannot be read or written. Nothing further is acknowledged; nothing is repaired."""


class Row(NamedTuple):
    rv: int
    resource: str
    key: str
    event: int
    body: bytes


class Log:
    """One open log file. Not for concurrent use: calls come one at a time, from any thread."""

    def __init__(self, path: Path, durability: Durability = Durability.FULL) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._prepare(durability)
        except sqlite3.DatabaseError as error:
            raise self._broken("opened", error) from error

    def _prepare(self, durability: Durability) -> None:
        execute = self._connection.execute
        found = execute("PRAGMA application_id").fetchone()[0]
        version = execute("PRAGMA user_version").fetchone()[0]
        tables = execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and (found != _APPLICATION_ID or version != _FORMAT):
            raise StorageBroken(
                f"{self.path} is not a Kilonova store of format {_FORMAT} "
                f"(application id {found:#x}, format {version}): start with another --data folder"
            )
        execute("PRAGMA journal_mode=WAL")
        execute(f"PRAGMA synchronous={durability.value}")
        execute("PRAGMA wal_autocheckpoint=4000")
        if not tables:
            execute(f"PRAGMA application_id={_APPLICATION_ID}")
            execute(f"PRAGMA user_version={_FORMAT}")
            self._connection.executescript(_TABLES)

    def window(self) -> tuple[int, int]:
        """The oldest resourceVersion a watch may resume from, and the last one given out."""
        oldest, last = self._connection.execute("SELECT oldest, last FROM window").fetchone()
        newest = self._connection.execute("SELECT max(rv) FROM log").fetchone()[0] or 0
        return oldest, max(last, newest)

    def replay(self) -> Iterator[Row]:
        """Every row, oldest first. A damaged one stops it: a wrong state is worse than none."""
        try:
            rows = self._connection.execute(
                "SELECT rv, resource, key, event, body, checksum FROM log ORDER BY rv"
            )
            for rv, resource, key, event, body, checksum in rows:
                row = Row(rv, resource, key, event, body)
                # A damaged page may give back NULL where the table forbids it.
                if not isinstance(body, bytes) or _checksum(row) != checksum:
                    raise StorageBroken(
                        f"{self.path} is damaged: row {rv} ({resource} {key}) fails its checksum. "
                        "Nothing was changed. Restore a copy of the folder, or start with another "
                        "--data folder"
                    )
                yield row
        except sqlite3.DatabaseError as error:
            raise self._broken("read", error) from error

    def append(self, rows: Sequence[Row], dead: Sequence[int], oldest: int) -> None:
        """Commit `rows`, and forget the rows numbered in `dead`, in one transaction."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)",
                [(*row, _checksum(row)) for row in rows],
            )
            if dead:
                connection.executemany("DELETE FROM log WHERE rv = ?", [(rv,) for rv in dead])
                last = rows[-1].rv if rows else 0
                connection.execute(
                    "UPDATE window SET oldest = ?, last = max(last, ?)", (oldest, last)
                )
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise self._broken("written", error) from error

    def close(self) -> None:
        self._connection.close()

    def _broken(self, verb: str, error: sqlite3.DatabaseError) -> StorageBroken:
        hint = (
            "free some space and start again: everything acknowledged is kept"
            if "full" in str(error) or "disk I/O" in str(error)
            else "restore a copy of the folder, or start with another --data folder; "
            "nothing was changed"
        )
        return StorageBroken(f"{self.path} cannot be {verb}: {error}. To go on: {hint}")


def _checksum(row: Row) -> int:
    head = f"{row.rv} {row.resource} {row.key} {row.event}".encode()
    return crc32(row.body, crc32(head))
