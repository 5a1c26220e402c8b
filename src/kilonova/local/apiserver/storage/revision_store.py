"""The store: writes are proposed, committed in groups to the revision log, and published."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from kilonova.local.apiserver.storage.collection import Collection
from kilonova.local.apiserver.storage.entries import Entry, EventType, StorageEvent
from kilonova.local.apiserver.storage.revision_log import RevisionLog, RevisionRow, StorageError

WATCH_CACHE_SECONDS = 75.0
WATCH_CACHE_EVENTS = 100_000
WATCH_CACHE_BYTES = 64 << 20
_TRIM_INTERVAL = 512
_FIRST_REVISION = 1
"""Of a store with a log that is empty."""


class PutEntry(msgspec.Struct, frozen=True):
    """Store this entry."""

    entry: Entry


class RemoveEntry(msgspec.Struct, frozen=True):
    """Remove the object; `entry` is its last state, at the version of the deletion."""

    entry: Entry


UpdateResult = PutEntry | RemoveEntry | None
"""The result of an update; None changes nothing."""

UpdateFunction = Callable[[Entry | None, int], UpdateResult]
"""Takes the newest entry and the resourceVersion that a change would have."""


class RevisionStore:
    """All collections. `read_entry` builds an entry from a stored body."""

    def __init__(
        self,
        log: RevisionLog | None,
        read_entry: Callable[[str, str, int, bytes], Entry],
        monotonic: Callable[[], float],
    ) -> None:
        self._log = log
        self._read_entry = read_entry
        self._monotonic = monotonic
        self._collections: dict[str, Collection] = {}
        self._thread = ThreadPoolExecutor(1, "store") if log else None
        self._batch: list[tuple[Collection, StorageEvent, asyncio.Future[None]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._watch_cache: deque[tuple[Collection, StorageEvent]] = deque()
        self._watch_cache_bytes = 0
        self._compacted: list[int] = []
        self._oldest_revision = 0
        self._proposed_revision = 0
        self.revision = 0
        """The newest revision on disk: what readers see."""
        self.failure: StorageError | None = None
        self.on_failure: Callable[[StorageError], None] = lambda _: None
        self._observers: dict[str, Callable[[StorageEvent], None]] = {}
        self._replay()

    def _replay(self) -> None:
        if self._log is None:
            return
        self._oldest_revision, last = self._log.revision_range()
        now = self._monotonic()
        for row in self._log.replay():
            entry = self._read_entry(row.resource, row.key, row.rv, row.body)
            collection = self.collection(row.resource)
            event = StorageEvent(EventType(row.event), entry, collection.get(row.key), now)
            collection.publish(event)
            if row.rv <= self._oldest_revision:
                collection.trim_events(collection.end_cursor)
                collection.oldest_revision = self._oldest_revision
            else:
                self._cache_event(collection, event)
        self._proposed_revision = self.revision = max(last, _FIRST_REVISION)

    def collection(self, resource: str) -> Collection:
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(resource, self._oldest_revision)
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written."""
        return self._proposed_revision <= _FIRST_REVISION

    def observe(self, resource: str, observer: Callable[[StorageEvent], None]) -> None:
        """Call `observer` with every change of a collection, before the write is acknowledged."""
        self._observers[resource] = observer

    @property
    def resources(self) -> list[str]:
        """Names of the collections that were ever used."""
        return list(self._collections)

    def newest_entry(self, collection: Collection, key: str) -> Entry | None:
        """The newest proposed entry: the base of the next write, not yet visible to readers."""
        if key in collection.proposed:
            return collection.proposed[key]
        return collection.entries.get(key)

    async def write(self, resource: str, key: str, *updates: UpdateFunction) -> Entry | None:
        """Run the update functions now, each against the newest entry; return when all are on disk.

        Several are committed together or not at all. Returns the entry stored, the last state of
        the one removed, or the current one if nothing changed. An update function must not wait;
        only the first may raise.
        """
        if self.failure is not None:
            raise self.failure
        collection = self.collection(resource)
        entry: Entry | None = None
        waiting: list[asyncio.Future[None]] = []
        for update in updates:
            entry, done = self._propose(collection, key, update)
            if done is not None:
                waiting.append(done)
        if waiting:
            await (asyncio.gather(*waiting) if len(waiting) > 1 else waiting[0])
        elif key in collection.proposed:
            await self._wait_committed()
        return entry

    async def write_all(self, resource: str, changes: Iterable[tuple[str, UpdateFunction]]) -> None:
        """Run an update function for each key now; return when all are on disk, together or not at
        all.
        """
        waiting = self.propose(resource, changes)
        if waiting:
            await asyncio.gather(*waiting)

    def propose(
        self, resource: str, changes: Iterable[tuple[str, UpdateFunction]]
    ) -> list[asyncio.Future[None]]:
        """Run an update function for each key now, without waiting: for changes that must be on
        disk no later than the next write. The result is done when they are.
        """
        if self.failure is not None:
            raise self.failure
        collection = self.collection(resource)
        proposed = [self._propose(collection, key, update)[1] for key, update in changes]
        return [done for done in proposed if done is not None]

    def _propose(
        self, collection: Collection, key: str, update: UpdateFunction
    ) -> tuple[Entry | None, asyncio.Future[None] | None]:
        current = self.newest_entry(collection, key)
        result = update(current, self._proposed_revision + 1)
        if result is None:
            return current, None
        self._proposed_revision += 1
        entry = result.entry
        if isinstance(result, RemoveEntry):
            kind = EventType.DELETED
            collection.proposed[key] = None
        else:
            kind = EventType.MODIFIED if current is not None else EventType.ADDED
            collection.proposed[key] = entry
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._batch.append((collection, StorageEvent(kind, entry, current, 0.0), done))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit(), name="store-commit")
        return entry, done

    async def _wait_committed(self) -> None:
        while self._committing is not None:
            await asyncio.shield(self._committing)
        if self.failure is not None:
            raise self.failure

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        batch: list[tuple[Collection, StorageEvent, asyncio.Future[None]]] = []
        try:
            while self._batch:
                batch, self._batch = self._batch, []
                if self._log is not None:
                    rows = [
                        RevisionRow(
                            event.entry.rv,
                            collection.resource,
                            event.entry.key,
                            event.type,
                            event.entry.body,
                        )
                        for collection, event, _ in batch
                    ]
                    compacted, self._compacted = self._compacted, []
                    await loop.run_in_executor(
                        self._thread, self._log.append, rows, compacted, self._oldest_revision
                    )
                self._publish(batch)
        except StorageError as error:
            self._fail(error, batch)
        finally:
            self._committing = None

    def _publish(self, batch: list[tuple[Collection, StorageEvent, asyncio.Future[None]]]) -> None:
        now = self._monotonic()
        changed: dict[str, tuple[Collection, list[StorageEvent]]] = {}
        for collection, event, done in batch:
            event.time = now
            collection.publish(event)
            self._cache_event(collection, event)
            observer = self._observers.get(collection.resource)
            if observer is not None:
                observer(event)
            changed.setdefault(collection.resource, (collection, []))[1].append(event)
            if not done.done():
                done.set_result(None)
        self.revision = batch[-1][1].entry.rv
        for collection, events in changed.values():
            collection.waiters.wake(events)
        if len(self._watch_cache) % _TRIM_INTERVAL < len(batch):
            self.trim_watch_cache()

    def _cache_event(self, collection: Collection, event: StorageEvent) -> None:
        self._watch_cache.append((collection, event))
        self._watch_cache_bytes += len(event.entry.body)

    def trim_watch_cache(self) -> None:
        """Trim the watch cache; the rows of trimmed events are deleted with the next commit."""
        cutoff = self._monotonic() - WATCH_CACHE_SECONDS
        watch_cache = self._watch_cache
        trimmed: dict[str, Collection] = {}
        while watch_cache:
            collection, event = watch_cache[0]
            fits = (
                len(watch_cache) <= WATCH_CACHE_EVENTS
                and self._watch_cache_bytes <= WATCH_CACHE_BYTES
            )
            if fits or event.time > cutoff:
                break
            watch_cache.popleft()
            self._watch_cache_bytes -= len(event.entry.body)
            self._oldest_revision = event.entry.rv
            if event.previous is not None:
                self._compacted.append(event.previous.rv)
            if event.type is EventType.DELETED:
                self._compacted.append(event.entry.rv)
            trimmed[collection.resource] = collection
        for collection in trimmed.values():
            collection.trim_events(
                collection.first_event + collection.count_events_until(self._oldest_revision)
            )
        if trimmed:
            for collection in self._collections.values():
                collection.oldest_revision = max(collection.oldest_revision, self._oldest_revision)

    def _fail(
        self,
        error: StorageError,
        batch: list[tuple[Collection, StorageEvent, asyncio.Future[None]]],
    ) -> None:
        self.failure = error
        for _, _, done in [*batch, *self._batch]:
            if not done.done():
                done.set_exception(error)
        self._batch = []
        for collection in self._collections.values():
            collection.proposed.clear()
        self.on_failure(error)

    async def close(self) -> None:
        """Commit what is proposed and close the file."""
        if self._committing is not None:
            await asyncio.shield(self._committing)
        if self._thread is not None and self._log is not None:
            self._thread.shutdown(wait=True)
            self._log.close()
