"""A log of changed rows, so that a vector over all rows is updated only where rows changed."""

from collections.abc import Iterable

import numpy as np

from kilonova.scheduler.core.model.label_columns import Rows

_MAX_ENTRIES = 1 << 16


class ChangeLog:
    """A log of rows, bounded: `since` returns None for a position that was dropped."""

    def __init__(self) -> None:
        self._log: list[int] = []
        self._dropped = 0

    @property
    def position(self) -> int:
        """The current end of the log: `since(position)` returns the rows recorded after it."""
        return self._dropped + len(self._log)

    def record(self, row: int) -> None:
        self._log.append(row)
        if len(self._log) > _MAX_ENTRIES:
            self._truncate()

    def record_all(self, rows: Iterable[int]) -> None:
        self._log.extend(rows)
        if len(self._log) > _MAX_ENTRIES:
            self._truncate()

    def since(self, position: int) -> Rows | None:
        """Rows that changed since a position, each once; None if the log does not reach back that
        far."""
        start = position - self._dropped
        if start < 0:
            return None
        changed = self._log[start:]
        if len(changed) < 2:
            return np.array(changed, np.intp)
        return np.array(sorted(set(changed)), np.intp)

    def _truncate(self) -> None:
        half = len(self._log) // 2
        del self._log[:half]
        self._dropped += half
