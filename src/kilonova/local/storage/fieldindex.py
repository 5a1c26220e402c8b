"""Which entries of a collection have a given value in one field."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kilonova.local.storage.entries import Entry

FieldOf = Callable[[Entry], str]


class FieldIndex:
    """Keys by the value of a field, for fields that very many selectors ask about.

    Made when the first of them asks, kept up to date with every change from then on.
    """

    def __init__(self, field_of: FieldOf, entries: Iterable[Entry]) -> None:
        self._field_of = field_of
        self._keys: dict[str, set[str]] = {}
        for entry in entries:
            self.replace(None, entry)

    def keys(self, value: str) -> list[str]:
        """The keys of the entries with this value, in order."""
        return sorted(self._keys.get(value, ()))

    def replace(self, before: Entry | None, after: Entry | None) -> None:
        """An entry has come, changed or gone."""
        old = self._field_of(before) if before is not None else None
        new = self._field_of(after) if after is not None else None
        if old == new:
            return
        if before is not None and old is not None:
            keys = self._keys[old]
            keys.discard(before.key)
            if not keys:
                del self._keys[old]
        if after is not None and new is not None:
            self._keys.setdefault(new, set()).add(after.key)
