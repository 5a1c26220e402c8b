"""The journal: the latest decisions of all leaders, in a bounded number of documents."""

from collections.abc import Sequence

from kilonova.fleet.documents import JOURNAL, JOURNAL_SEGMENTS, JournalEntry, JournalSegment
from kilonova.fleet.store.fleet_store import FleetStore, StoredDocument

SEGMENT_ENTRIES = 128


class Journal:
    """Appends decisions; one for each term of a leader, whose store is fenced.

    Segments are numbered without end and stored in a ring: a new one takes the place of the oldest.
    """

    def __init__(self, store: FleetStore) -> None:
        self._store = store
        self._segments: dict[int, StoredDocument[JournalSegment]] | None = None
        self._number = 0

    async def append(self, entries: Sequence[JournalEntry]) -> None:
        """Write decisions, at most `SEGMENT_ENTRIES` at a time; the order is kept."""
        for start in range(0, len(entries), SEGMENT_ENTRIES):
            await self._append(tuple(entries[start : start + SEGMENT_ENTRIES]))

    async def _append(self, entries: tuple[JournalEntry, ...]) -> None:
        if self._segments is None:
            self._segments, self._number = await self._load()
        slot = self._number % JOURNAL_SEGMENTS
        found = self._segments.get(slot)
        current = found.document if found is not None else None
        kept = current.entries if current is not None and current.number == self._number else ()
        if len(kept) + len(entries) > SEGMENT_ENTRIES:
            self._number += 1
            await self._append(entries)
            return
        segment = JournalSegment(self._number, kept + entries)
        try:
            written = await self._store.write(JOURNAL, segment, found.version if found else None)
        except BaseException:
            self._segments = None  # it may have been written: read again
            raise
        self._segments[slot] = written

    async def _load(self) -> tuple[dict[int, StoredDocument[JournalSegment]], int]:
        stored = await self._store.read_all(JOURNAL)
        segments = {each.document.number % JOURNAL_SEGMENTS: each for each in stored}
        return segments, max((each.document.number for each in stored), default=0)


async def read_journal(store: FleetStore) -> list[JournalEntry]:
    """All decisions that are kept, the oldest first."""
    segments = sorted(
        (each.document for each in await store.read_all(JOURNAL)), key=lambda each: each.number
    )
    return [entry for segment in segments for entry in segment.entries]
