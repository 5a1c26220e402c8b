"""The store: what the API server knows, in memory, and on disk before anyone is told.

Words. A *collection* holds the objects of one resource (`pods`, `deployments.apps`). An
*entry* is one object as stored: encoded once, never decoded to be served. An *event* is one
change of an entry; events of a collection stand in a *window* that watches read from. The
*log* is the file: every change is a row, and the row id is the resourceVersion.

One event loop owns everything here; only `Log.append` runs elsewhere, on one thread of its
own. A write is decided at once, against the newest proposed state; it becomes visible to
readers and watches, and is acknowledged, only when its row is on disk. All writes proposed
while a commit is under way share the next one (group commit).
"""

from kilonova.local.storage.entries import Entry, Event, EventType
from kilonova.local.storage.log import Durability, Log, StorageBroken
from kilonova.local.storage.sleepers import Interest
from kilonova.local.storage.store import Collection, Decide, Put, Remove, Store, WindowExceeded

__all__ = [
    "Collection",
    "Decide",
    "Durability",
    "Entry",
    "Event",
    "EventType",
    "Interest",
    "Log",
    "Put",
    "Remove",
    "StorageBroken",
    "Store",
    "WindowExceeded",
]
