"""Which tables are not as the cluster is now, and why.

Rights come and go, and so do servers: what is told here is what stands in the way at the moment.
Reflectors go on trying, and say when they are through.
"""

import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from kilonova.console.tables import Table
from kilonova.kube import ApiStatusError, ConnectionFailed, Forbidden, KubeError, Unauthorized

Reason = Literal["forbidden", "unauthorized", "unreachable", "refused"]


class Trouble(msgspec.Struct, frozen=True):
    """Why a table cannot be read."""

    table: str
    what: str
    """The resource as `kubectl` calls it: `podcliquesets`."""
    reason: Reason
    message: str
    """In the words of whoever refused."""
    since: float
    """In seconds since the epoch: rows that there are, are as they were then."""


class Troubles:
    """What reflectors report, by table."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._since: dict[str, float] = {}
        self._standing: dict[str, Trouble] = {}
        self._tell: Callable[[], None] = lambda: None

    def listen(self, tell: Callable[[], None]) -> None:
        """Call this whenever something changes."""
        self._tell = tell

    def of(self, table: str) -> Trouble | None:
        """Why a table cannot be read at the moment; None if it can."""
        return self._standing.get(table)

    def hear(self, table: Table[Any], error: KubeError | None) -> None:
        """Take in that a try to read a table failed, or that it is read again."""
        if error is None:
            self._since.pop(table.name, None)
            if self._standing.pop(table.name, None) is not None:
                self._tell()
            return
        reason = _reason(error)
        is_first = table.name not in self._since
        since = self._since.setdefault(table.name, round(self._now(), 3))
        if is_first and reason in ("unreachable", "refused"):
            # Connections break, versions expire: nearly always the next try mends it.
            return
        message = error.message if isinstance(error, ApiStatusError) else str(error)
        trouble = Trouble(table.name, table.resource.plural, reason, message, since)
        if self._standing.get(table.name) != trouble:
            self._standing[table.name] = trouble
            self._tell()


def _reason(error: KubeError) -> Reason:
    match error:
        case Forbidden():
            return "forbidden"
        case Unauthorized():
            return "unauthorized"
        case ConnectionFailed():
            return "unreachable"
        case _:
            return "refused"
