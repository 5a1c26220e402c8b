"""Keeps a store equal to what the API server has.

One task per reflector: it fills the store with all objects, then watches from the version of that
list, resuming from the last observed version whenever the connection ends. The version advances
only after its events are in the store, and both happen without an await in between: a cancellation
or a broken connection at any point leaves no gap.

The store is filled by a streaming list (initial events of the watch itself) where the server
supports it, else by a paged list. When the server no longer has our version (410), the store is
filled again and the event handlers are called for the differences, deletions included.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from typing import Generic, TypeVar

from kilonova.kube.client.client import Client
from kilonova.kube.client.codec import Undecodable
from kilonova.kube.client.errors import (
    ApiStatusError,
    BadRequest,
    ConnectionFailed,
    Expired,
    Invalid,
    KubeError,
    NotFound,
)
from kilonova.kube.client.resource import Resource
from kilonova.kube.client.watch import Added, Bookmark, Deleted, Modified, WatchEvent
from kilonova.kube.informers.object_keys import Key
from kilonova.kube.informers.store import IndexFunc, Store
from kilonova.kube.observability.runtime_metrics import NO_RUNTIME_METRICS, RuntimeMetrics
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.wait.backoff import Backoff
from kilonova.kube.wait.cooperative_yield import CooperativeYield
from kilonova.kube.wait.idle_timeout import timeout_when_idle

T = TypeVar("T")

_VERY_SHORT_WATCH_SECONDS = 1.0
_MIN_WATCH_TIMEOUT_SECONDS = 300  # plus a jitter of up to the same


class _WatchListUnsupported(Exception):
    """The server accepted the request for initial events but did not send them."""


class Reflector(Generic[T]):
    """Lists and watches one resource, or the objects that the selectors match.

    A stream without any data, bookmarks included, for `idle_timeout` seconds is replaced by
    another; servers send a bookmark about every minute, for most kinds. Share a reflector between
    controllers: its cost is per event, not per handler. An `optional` resource counts as empty
    while the server does not serve the kind; others are waited for. `on_watch_error` is called with
    the error of each failed attempt, and with None whenever the store is in sync with the server
    (again).
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        indexes: Mapping[str, IndexFunc[T]] | None = None,
        optional: bool = False,
        on_watch_error: Callable[[KubeError | None], None] = lambda _: None,
        idle_timeout: float = 90.0,
        backoff: Backoff | None = None,
        runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"reflector of {resource.full_name}" + (f" in {namespace}" if namespace else "")
        self.resource = resource
        self.store: Store[T] = Store(resource.type, indexes)
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._optional = optional
        self._on_watch_error = on_watch_error
        self._idle_timeout = idle_timeout
        self._backoff = backoff or Backoff(0.5, 30.0)
        self._runtime_metrics = runtime_metrics
        self._sleep = sleep
        self._jitter = jitter
        self._synced = asyncio.Event()
        self._resource_version = ""
        self._log = get_logger(__name__, resource=resource.full_name)
        self._use_watch_list = True
        self._failures = 0  # consecutive
        self._last_failure = ""  # the last error, until the watch has recovered

    @property
    def resource_version(self) -> str:
        """All changes up to this version are in the store; empty before the first list."""
        return self._resource_version

    @property
    def has_synced(self) -> bool:
        """Whether the store has been filled for the first time."""
        return self.store.has_synced

    async def wait_for_sync(self) -> None:
        """Wait until the store has been filled for the first time."""
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled. Failures are retried; repeated failures are logged once,
        and the recovery."""
        while True:
            try:
                await self._list_and_watch()
            except _WatchListUnsupported:
                self._use_watch_list = False
            except KubeError as error:
                if self._rejects_watch_list(error):
                    self._use_watch_list = False
                    continue
                self._failures += 1
                delay = self._backoff.delay(self._failures)
                absent = self._optional and isinstance(error, NotFound)
                self._report_failure(
                    error, delay, is_known=absent or str(error) == self._last_failure
                )
                self._last_failure = str(error)
                if _must_relist(error):
                    self._resource_version = ""
                if absent and not self.has_synced:
                    self._replace_store({}, (), "")
                self._on_watch_error(None if absent else error)
                await self._sleep(delay)
            else:
                self._failures = 0
                self._runtime_metrics.count_watch_end(self.resource.full_name, "closed")

    async def _list_and_watch(self) -> None:
        """One watch, preceded by a list where one is needed."""
        if not self._resource_version and not self._use_watch_list:
            await self._list()
        filling = not self._resource_version
        loop = asyncio.get_running_loop()
        started = loop.time()
        follows = received_any = False
        try:
            async with (
                timeout_when_idle(self._idle_timeout) as mark_active,
                self._client.watch(
                    self.resource,
                    self._namespace,
                    label_selector=self._label_selector,
                    field_selector=self._field_selector,
                    resource_version=self._resource_version,
                    initial_events=filling,
                    timeout_seconds=int(_MIN_WATCH_TIMEOUT_SECONDS * (1 + self._jitter())),
                ) as stream,
                aclosing(aiter(stream)) as batches,
            ):
                if filling:
                    await self._watch_list(batches, mark_active)
                if self._resource_version:
                    self._report_recovery()
                    follows = True
                cooperative_yield = CooperativeYield()
                async for batch in batches:
                    mark_active()
                    self._apply_events(batch)
                    received_any = True
                    self._failures = 0
                    await cooperative_yield.yield_if_due()
        except TimeoutError:
            if follows:
                # Kubernetes sends no bookmarks for Events and other kinds that it does not cache:
                # an idle watch of these is no failure. Start another.
                self._log.debug("watch idle, restarting it", seconds=self._idle_timeout)
                return
            if not self._resource_version:
                self._use_watch_list = False
            raise ConnectionFailed(
                f"no watch event or bookmark for {self._idle_timeout:g} s"
            ) from None
        if not self._resource_version:
            raise ConnectionFailed("the streaming list ended before it was complete")
        if not received_any and loop.time() - started < _VERY_SHORT_WATCH_SECONDS:
            raise ConnectionFailed("the watch ended immediately")

    async def _list(self) -> None:
        unread: list[Undecodable] = []
        listing = await self._client.list(
            self.resource,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            on_undecodable=unread.append,
        )
        for problem in unread:
            self._report_undecodable(problem)
        objects = {self.store.key_of(obj): obj for obj in listing.items}
        self._replace_store(
            objects, {(p.namespace, p.name) for p in unread}, listing.resource_version
        )

    async def _watch_list(
        self, batches: AsyncGenerator[list[WatchEvent[T]]], reset_idle_timeout: Callable[[], None]
    ) -> None:
        """Collect the initial events; the store changes only once they are complete."""
        objects: dict[Key, T] = {}
        unread: set[Key] = set()
        key_of = self.store.key_of
        cooperative_yield = CooperativeYield()
        async for batch in batches:
            reset_idle_timeout()
            for position, event in enumerate(batch):
                if isinstance(event, Added | Modified):
                    objects[key_of(event.object)] = event.object
                elif isinstance(event, Deleted):
                    objects.pop(key_of(event.object), None)
                elif isinstance(event, Bookmark):
                    if not event.ends_initial_events:
                        raise _WatchListUnsupported
                    self._replace_store(objects, unread, event.resource_version)
                    self._apply_events(batch[position + 1 :])
                    return
                else:
                    self._report_undecodable(event)
                    unread.add((event.namespace, event.name))
            await cooperative_yield.yield_if_due()

    def _replace_store(self, objects: dict[Key, T], unread: Collection[Key], version: str) -> None:
        cause = "expired" if self.store.has_synced else "start"
        self.store.replace(objects, keep_keys=unread)
        self._resource_version = version
        self._synced.set()
        self._runtime_metrics.observe_list(self.resource.full_name, cause, len(objects))

    def _apply_events(self, batch: list[WatchEvent[T]]) -> None:
        """Apply a batch to the store, and advance the version."""
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
                self._apply_undecodable(event)  # pyright: ignore
        last = batch[-1]
        if isinstance(last, Bookmark | Undecodable):
            version = last.resource_version
        else:
            version = store.version_of(last.object)
        self._resource_version = version or self._resource_version
        self._runtime_metrics.count_watch_events(self.resource.full_name, len(batch))

    def _apply_undecodable(self, event: Undecodable) -> None:
        """Keep the last known state of the object, as it still exists."""
        if event.deleted:
            self.store.remove((event.namespace, event.name))
        else:
            self._report_undecodable(event)

    def _rejects_watch_list(self, error: KubeError) -> bool:
        requested_initial_events = not self._resource_version and self._use_watch_list
        return requested_initial_events and isinstance(error, Invalid | BadRequest)

    def _report_recovery(self) -> None:
        if self._last_failure:
            self._last_failure = ""
            self._log.info("watch recovered")
        self._on_watch_error(None)

    def _report_failure(self, error: KubeError, delay: float, *, is_known: bool) -> None:
        reason = error.reason if isinstance(error, ApiStatusError) else type(error).__name__
        self._runtime_metrics.count_watch_end(self.resource.full_name, reason)
        log_failure = self._log.debug if is_known else self._log.warning
        log_failure("watch failed, will retry", error=str(error), delay=round(delay, 3))

    def _report_undecodable(self, event: Undecodable) -> None:
        self._log.error(
            "object not decoded, left out of the store",
            object=f"{event.namespace}/{event.name}".lstrip("/"),
            type=self.resource.type.__qualname__,
            problem=event.problem,
        )


def _must_relist(error: KubeError) -> bool:
    """Whether the server lacks our version: too old, or, after a restore, too new."""
    if isinstance(error, ApiStatusError):
        return isinstance(error, Expired) or any(
            cause.get("reason") == "ResourceVersionTooLarge" for cause in error.causes
        )
    return False
