"""Keeps a store equal to what the API server has.

One task per reflector: it fills the store with all objects, then follows the watch from the
version of that list, resuming from the last version seen whenever the connection ends. The
version moves on only after its events are in the store, and both happen without an await in
between: a cancellation or a broken connection at any point leaves no gap.

Filling is a streaming list (initial events of the watch itself) where the server serves it,
else a paged list. When the server no longer knows our version (410), the store is filled
again and the differences, departures included, are told to the handlers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from typing import Generic, TypeVar

from kilonova.kube.backoff import Backoff
from kilonova.kube.breath import Breath
from kilonova.kube.client import Client
from kilonova.kube.codec import Undecodable
from kilonova.kube.errors import (
    ApiStatusError,
    BadRequest,
    ConnectionFailed,
    Expired,
    Invalid,
    KubeError,
    NotFound,
)
from kilonova.kube.identity import Key
from kilonova.kube.instruments import UNMEASURED, Instruments
from kilonova.kube.logging import get_logger
from kilonova.kube.resource import Resource
from kilonova.kube.silence import ends_when_silent
from kilonova.kube.store import IndexValues, Store
from kilonova.kube.watch import Added, Bookmark, Deleted, Event, Modified

T = TypeVar("T")

_SHORT_WATCH_SECONDS = 1.0
_WATCH_SECONDS = 300  # and up to as much again


class _NotStreamed(Exception):
    """The server took the request for initial events and did not act on it."""


class Reflector(Generic[T]):
    """Follows one resource, or the part of it that the selectors choose.

    `silence` is after how many seconds without data, bookmarks included, a stream is given up for
    another; servers send a bookmark about every minute, of most kinds. Share a reflector between
    controllers: its cost is per event, not per handler. What is `optional` counts as empty while
    the server does not know the kind; the others are waited for. `on_trouble` is told why a try
    failed, each time, and None whenever the store is, or is again, what the server has.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexValues[T]] | None = None,
        optional: bool = False,
        on_trouble: Callable[[KubeError | None], None] = lambda _: None,
        silence: float = 90.0,
        backoff: Backoff | None = None,
        instruments: Instruments = UNMEASURED,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"reflector of {resource.full_name}" + (f" in {namespace}" if namespace else "")
        self.resource = resource
        self.store: Store[T] = Store(resource.type, indexes)
        self._client = client
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._optional = optional
        self._on_trouble = on_trouble
        self._silence = silence
        self._backoff = backoff or Backoff(0.5, 30.0)
        self._instruments = instruments
        self._sleep = sleep
        self._jitter = jitter
        self._synced = asyncio.Event()
        self._version = ""
        self._log = get_logger(__name__, resource=resource.full_name)
        self._streams_lists = True
        self._failures = 0  # in a row
        self._failure = ""  # the last one, until the server is followed again

    @property
    def resource_version(self) -> str:
        """All changes up to this version are in the store; empty before the first list."""
        return self._version

    @property
    def synced(self) -> bool:
        """Whether the store has been filled for the first time."""
        return self.store.synced

    async def wait_synced(self) -> None:
        """Wait until the store has been filled for the first time."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow until cancelled. Failures to talk to the server are retried; one that repeats is
        logged once, and its end."""
        while True:
            try:
                await self._follow()
            except _NotStreamed:
                self._streams_lists = False
            except KubeError as error:
                if self._refuses_initial_events(error):
                    self._streams_lists = False
                    continue
                self._failures += 1
                delay = self._backoff.delay(self._failures)
                absent = self._optional and isinstance(error, NotFound)
                self._report(error, delay, known=absent or str(error) == self._failure)
                self._failure = str(error)
                if _cannot_resume(error):
                    self._version = ""
                if absent and not self.synced:
                    self._replace({}, (), "")
                self._on_trouble(None if absent else error)
                await self._sleep(delay)
            else:
                self._failures = 0
                self._instruments.watch_ended(self.resource.full_name, "closed")

    async def _follow(self) -> None:
        """One watch, with the list before it where one is needed."""
        if not self._version and not self._streams_lists:
            await self._list()
        filling = not self._version
        loop = asyncio.get_running_loop()
        started = loop.time()
        follows = heard_any = False
        try:
            async with (
                ends_when_silent(self._silence) as heard,
                self._client.watch(
                    self.resource,
                    self._namespace,
                    labels=self._labels,
                    fields=self._fields,
                    resource_version=self._version,
                    initial_events=filling,
                    timeout_seconds=int(_WATCH_SECONDS * (1 + self._jitter())),
                ) as stream,
                aclosing(aiter(stream)) as batches,
            ):
                if filling:
                    await self._fill_from(batches, heard)
                if self._version:
                    self._mended()
                    follows = True
                breath = Breath()
                async for batch in batches:
                    heard()
                    self._take(batch)
                    heard_any = True
                    self._failures = 0
                    await breath.take_if_due()
        except TimeoutError:
            if follows:
                # Of Events, and of all that it does not cache, Kubernetes sends no bookmarks: where
                # nothing happens that is no failure. Another watch will tell.
                self._log.debug("the watch was silent, another follows", seconds=self._silence)
                return
            if not self._version:
                self._streams_lists = False
            raise ConnectionFailed(f"the watch was silent for {self._silence:g} s") from None
        if not self._version:
            raise ConnectionFailed("the streaming list stopped before its end")
        if not heard_any and loop.time() - started < _SHORT_WATCH_SECONDS:
            raise ConnectionFailed("the watch ended as soon as it began")

    async def _list(self) -> None:
        unread: list[Undecodable] = []
        listing = await self._client.list(
            self.resource,
            self._namespace,
            labels=self._labels,
            fields=self._fields,
            on_undecodable=unread.append,
        )
        for problem in unread:
            self._report_undecodable(problem)
        objects = {self.store.key_of(obj): obj for obj in listing.items}
        self._replace(objects, {(p.namespace, p.name) for p in unread}, listing.resource_version)

    async def _fill_from(
        self, batches: AsyncGenerator[list[Event[T]]], heard: Callable[[], None]
    ) -> None:
        """Gather the initial events; the store changes only once they are complete."""
        objects: dict[Key, T] = {}
        unread: set[Key] = set()
        key_of = self.store.key_of
        breath = Breath()
        async for batch in batches:
            heard()
            for position, event in enumerate(batch):
                if isinstance(event, Added | Modified):
                    objects[key_of(event.object)] = event.object
                elif isinstance(event, Deleted):
                    objects.pop(key_of(event.object), None)
                elif isinstance(event, Bookmark):
                    if not event.ends_initial_events:
                        raise _NotStreamed
                    self._replace(objects, unread, event.resource_version)
                    self._take(batch[position + 1 :])
                    return
                else:
                    self._report_undecodable(event)
                    unread.add((event.namespace, event.name))
            await breath.take_if_due()

    def _replace(self, objects: dict[Key, T], unread: Collection[Key], version: str) -> None:
        cause = "expired" if self.store.synced else "start"
        self.store.replace(objects, keep=unread)
        self._version = version
        self._synced.set()
        self._instruments.listed(self.resource.full_name, cause, len(objects))

    def _take(self, batch: list[Event[T]]) -> None:
        """Bring a batch into the store, and the version up to it."""
        if not batch:
            return
        store = self.store
        put = store.put
        for event in batch:
            # Compared by identity, most frequent first: this runs for each event.
            kind = event.__class__
            if kind is Modified or kind is Added:
                put(event.object)  # pyright: ignore
            elif kind is Deleted:
                store.remove(store.key_of(event.object))  # pyright: ignore
            elif kind is Undecodable:
                self._take_undecodable(event)  # pyright: ignore
        last = batch[-1]
        if isinstance(last, Bookmark | Undecodable):
            version = last.resource_version
        else:
            version = store.version_of(last.object)
        self._version = version or self._version
        self._instruments.events_received(self.resource.full_name, len(batch))

    def _take_undecodable(self, event: Undecodable) -> None:
        """What was last seen of the object stays, as it is still there."""
        if event.deleted:
            self.store.remove((event.namespace, event.name))
        else:
            self._report_undecodable(event)

    def _refuses_initial_events(self, error: KubeError) -> bool:
        asked = not self._version and self._streams_lists
        return asked and isinstance(error, Invalid | BadRequest)

    def _mended(self) -> None:
        if self._failure:
            self._failure = ""
            self._log.info("followed again")
        self._on_trouble(None)

    def _report(self, error: KubeError, delay: float, *, known: bool) -> None:
        reason = error.reason if isinstance(error, ApiStatusError) else type(error).__name__
        self._instruments.watch_ended(self.resource.full_name, reason)
        tell = self._log.debug if known else self._log.warning
        tell("watch failed, will retry", error=str(error), delay=round(delay, 3))

    def _report_undecodable(self, event: Undecodable) -> None:
        self._log.error(
            "object does not fit its type and is left out",
            object=f"{event.namespace}/{event.name}".lstrip("/"),
            type=self.resource.type.__qualname__,
            problem=event.problem,
        )


def _cannot_resume(error: KubeError) -> bool:
    """Whether the server does not know our version: too old, or, after a restore, too new."""
    if isinstance(error, ApiStatusError):
        return isinstance(error, Expired) or any(
            cause.get("reason") == "ResourceVersionTooLarge" for cause in error.causes
        )
    return False
