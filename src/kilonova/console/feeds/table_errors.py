"""Tables that cannot be read at the moment, and why.

Errors are reported by the tables' reflectors, which retry, and report success as well: permissions
may be granted later, and servers come back.
"""

import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from kilonova.component.console import Table
from kilonova.kube import ApiStatusError, ConnectionFailed, Forbidden, KubeError, Unauthorized

TableErrorReason = Literal["forbidden", "unauthorized", "unreachable", "rejected"]


class TableError(msgspec.Struct, frozen=True):
    """Why a table cannot be read."""

    table: str
    resource: str
    """The resource as `kubectl` calls it: `podcliquesets`."""
    reason: TableErrorReason
    message: str
    """The message of the API server or the connection."""
    since: float
    """In seconds since the epoch; rows received before are stale since then."""


class TableErrors:
    """Current errors by table."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._since: dict[str, float] = {}
        self._current: dict[str, TableError] = {}
        self._notify: Callable[[], None] = lambda: None

    def subscribe(self, notify: Callable[[], None]) -> None:
        """Call `notify` on every change."""
        self._notify = notify

    def get(self, table: str) -> TableError | None:
        """The current error of a table; None if it can be read."""
        return self._current.get(table)

    def report(self, table: Table[Any], error: KubeError | None) -> None:
        """Record a failed attempt to list or watch a table, or (None) a successful one."""
        if error is None:
            self._since.pop(table.name, None)
            if self._current.pop(table.name, None) is not None:
                self._notify()
            return
        reason = _classify_error(error)
        is_first = table.name not in self._since
        since = self._since.setdefault(table.name, round(self._now(), 3))
        if is_first and reason in ("unreachable", "rejected"):
            # A lost connection or an expired resource version is usually fixed by the first retry.
            return
        message = error.message if isinstance(error, ApiStatusError) else str(error)
        table_error = TableError(table.name, table.resource.plural, reason, message, since)
        if self._current.get(table.name) != table_error:
            self._current[table.name] = table_error
            self._notify()


def _classify_error(error: KubeError) -> TableErrorReason:
    match error:
        case Forbidden():
            return "forbidden"
        case Unauthorized():
            return "unauthorized"
        case ConnectionFailed():
            return "unreachable"
        case _:
            return "rejected"
