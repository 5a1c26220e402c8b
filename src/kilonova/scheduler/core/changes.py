"""Which rows changed since when: who keeps a vector over all rows looks only at those."""

from collections.abc import Iterable

import numpy as np

from kilonova.scheduler.core.labels import Rows

_KEPT = 1 << 16


class Changes:
    """A log of rows. Only the newest part is kept; who has not looked for long is told so."""

    def __init__(self) -> None:
        self._log: list[int] = []
        self._forgotten = 0

    @property
    def position(self) -> int:
        """Now: what is noted from here on is found by `since`."""
        return self._forgotten + len(self._log)

    def note(self, row: int) -> None:
        self._log.append(row)
        if len(self._log) > _KEPT:
            self._forget()

    def note_all(self, rows: Iterable[int]) -> None:
        self._log.extend(rows)
        if len(self._log) > _KEPT:
            self._forget()

    def since(self, position: int) -> Rows | None:
        """Rows that changed since a position, each once; None if that is no longer known."""
        start = position - self._forgotten
        if start < 0:
            return None
        changed = self._log[start:]
        if len(changed) < 2:
            return np.array(changed, np.intp)
        return np.array(sorted(set(changed)), np.intp)

    def _forget(self) -> None:
        half = len(self._log) // 2
        del self._log[:half]
        self._forgotten += half
