"""An index of a collection's entries by the value of one field."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kilonova.local.apiserver.storage.entries import Entry

FieldReader = Callable[[Entry], str]


class FieldIndex:
    """Keys by the value of a field, for selectors that are used very often.

    Built at first use, and updated with every change from then on.
    """

    def __init__(self, read_field: FieldReader, entries: Iterable[Entry]) -> None:
        self._read_field = read_field
        self._keys: dict[str, set[str]] = {}
        for entry in entries:
            self.update(None, entry)

    def keys(self, value: str) -> list[str]:
        """The keys of the entries with this value, in order."""
        return sorted(self._keys.get(value, ()))

    def update(self, before: Entry | None, after: Entry | None) -> None:
        """Update the index after an entry was added, changed or removed."""
        old = self._read_field(before) if before is not None else None
        new = self._read_field(after) if after is not None else None
        if old == new:
            return
        if before is not None and old is not None:
            keys = self._keys[old]
            keys.discard(before.key)
            if not keys:
                del self._keys[old]
        if after is not None and new is not None:
            self._keys.setdefault(new, set()).add(after.key)
