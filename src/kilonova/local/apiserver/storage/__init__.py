"""The store: all objects in memory, committed to disk before a write is acknowledged.

Terms. A *collection* has the objects of one resource (`pods`, `deployments.apps`). An *entry* is
one stored object: encoded once, never decoded to be served. An *event* is one change of an entry;
the latest events of a collection are its *watch cache*, which watches read. The *revision log* is
the file: every change is a row, and the row id is the resourceVersion.

One event loop owns everything here; only `RevisionLog.append` runs on a thread of its own. A write
is decided synchronously, against the newest proposed state; it becomes visible to readers and
watches, and is acknowledged, only when its row is on disk. All writes proposed during a commit
share the next one (group commit).

The entry point is `RevisionStore` (`revision_store`).
"""

from kilonova.local.apiserver.storage.collection import Collection, RevisionCompacted
from kilonova.local.apiserver.storage.entries import Entry, EventType, StorageEvent
from kilonova.local.apiserver.storage.revision_log import Durability, RevisionLog, StorageError
from kilonova.local.apiserver.storage.revision_store import (
    PutEntry,
    RemoveEntry,
    RevisionStore,
    UpdateFunction,
)
from kilonova.local.apiserver.storage.waiters import WatchInterest

__all__ = [
    "Collection",
    "Durability",
    "Entry",
    "EventType",
    "PutEntry",
    "RemoveEntry",
    "RevisionCompacted",
    "RevisionLog",
    "RevisionStore",
    "StorageError",
    "StorageEvent",
    "UpdateFunction",
    "WatchInterest",
]
