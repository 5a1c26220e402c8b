"""Tables of a cluster: listed once, or kept up to date by reflectors."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import typer

from kilonova.cli.lists.views import Tables
from kilonova.console.core.tables import TABLES
from kilonova.kube import (
    Backoff,
    Client,
    Forbidden,
    Key,
    NotFound,
    Reflector,
    Request,
)
from kilonova.kube.observability.runtime_metrics import NoRuntimeMetrics, RelistCause
from kilonova.scheduler.console import QUEUES

_MAX_BACKOFF_SECONDS = 4.0
_ERROR_EXPIRY_SECONDS = 2 * _MAX_BACKOFF_SECONDS + 10.0
"""Includes the seconds that a connection attempt may take to fail."""

TableName = Literal[
    "nodes",
    "pods",
    "gangs",
    "sets",
    "cliques",
    "queues",
    "deployments",
    "statefulsets",
    "jobs",
    "gpuworkloads",
]

_TABLES = {table.name: table for table in (*TABLES, QUEUES)}


@dataclass(frozen=True, slots=True)
class TableSource:
    """The objects of a table. An optional one is empty if its kind is not served or may not be
    listed."""

    table: TableName
    namespace: str | None = None
    labels: str = ""
    optional: bool = False


def owner_sources(namespace: str | None = None) -> tuple[TableSource, ...]:
    """Sources of all owners of pods, so that workloads without pods are listed too."""
    tables: tuple[TableName, ...] = (
        "sets",
        "cliques",
        "deployments",
        "statefulsets",
        "jobs",
        "gpuworkloads",
    )
    return tuple(TableSource(table, namespace, optional=True) for table in tables)


async def filter_readable(
    client: Client, sources: tuple[TableSource, ...]
) -> tuple[TableSource, ...]:
    """The sources that this user may list; the others are reported on standard error."""
    checks = (_can_read(client, each) for each in sources)
    answers = await asyncio.gather(*checks, return_exceptions=True)
    readable: dict[TableSource, bool] = {}
    # The error of the first required source is raised, whichever answer came first.
    for source, answer in zip(sources, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        readable[source] = answer
    forbidden = [_TABLES[each.table].resource.plural for each in sources if not readable[each]]
    if forbidden:
        names = ", ".join(forbidden)
        typer.echo(f"kilonova: you may not list {names}: their data is omitted", err=True)
    return tuple(each for each in sources if readable[each])


async def _can_read(client: Client, source: TableSource) -> bool:
    resource = _TABLES[source.table].resource
    try:
        await client.send(Request("GET", resource.path(source.namespace), [("limit", "1")]))
    except NotFound:
        if not source.optional:
            raise
    except Forbidden:
        if not source.optional:
            raise
        return False
    return True


async def list_tables(client: Client, sources: tuple[TableSource, ...]) -> Tables:
    """List the current rows of all sources."""
    listed = await asyncio.gather(*(_list_rows(client, each) for each in sources))
    by_table = {each.table: rows for each, rows in zip(sources, listed, strict=True)}
    return Tables(**by_table, has_label_selector=_has_label_selector(sources))


async def _list_rows(client: Client, source: TableSource) -> list[Any]:
    resource, row = _TABLES[source.table].resource, _TABLES[source.table].row
    try:
        listing = await client.list(
            resource, source.namespace, label_selector=source.labels, on_undecodable=lambda _: None
        )
    except NotFound:
        if source.optional:
            return []
        raise
    return [row(each) for each in listing.items]


def _has_label_selector(sources: tuple[TableSource, ...]) -> bool:
    """Whether pods are selected by labels."""
    return any(each.labels for each in sources if each.table == "pods")


class LiveTables:
    """Tables that reflectors keep up to date while `run` runs."""

    def __init__(self, client: Client, sources: tuple[TableSource, ...]) -> None:
        self._client = client
        self._changed = asyncio.Event()
        self._rows: dict[TableName, dict[Key, Any]] = {each.table: {} for each in sources}
        self._has_label_selector = _has_label_selector(sources)
        self._watch_health = _WatchHealth(self._changed)
        self._reflectors = [self._build_reflector(each) for each in sources]

    @property
    def error(self) -> str:
        """Why the tables may be stale; empty if they are up to date."""
        return self._watch_health.error

    @property
    def is_synced(self) -> bool:
        """Whether all tables have been listed once."""
        return all(each.has_synced for each in self._reflectors)

    def tables(self) -> Tables:
        """The current rows."""
        by_table = {table: list(rows.values()) for table, rows in self._rows.items()}
        return Tables(**by_table, has_label_selector=self._has_label_selector)

    def wake(self) -> None:
        """Let `wait_changed` return."""
        self._changed.set()

    async def wait_changed(self, timeout: float) -> None:
        """Wait for a change since the last call, at most `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        self._changed.clear()

    async def run(self) -> None:
        """Run the reflectors until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._reflectors:
                tasks.create_task(each.run())

    def _build_reflector(self, source: TableSource) -> Reflector[Any]:
        resource, row = _TABLES[source.table].resource, _TABLES[source.table].row
        reflector: Reflector[Any] = Reflector(
            self._client,
            resource,
            source.namespace,
            label_selector=source.labels,
            optional=source.optional,
            backoff=Backoff(0.5, _MAX_BACKOFF_SECONDS),
            runtime_metrics=self._watch_health,
        )
        rows, key_of = self._rows[source.table], reflector.store.key_of

        def on_event(old: Any, new: Any) -> None:
            if new is None:
                rows.pop(key_of(old), None)
            else:
                rows[key_of(new)] = row(new)
            self._changed.set()

        reflector.store.add_event_handler(on_event)
        return reflector


class _WatchHealth(NoRuntimeMetrics):
    """Records which watches fail.

    A reflector retries every few seconds and reports each failure: a failure that was not reported
    again for longer is over, even if no event has arrived since.
    """

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed
        self._failures: dict[str, tuple[str, float]] = {}

    @property
    def error(self) -> str:
        since = time.monotonic() - _ERROR_EXPIRY_SECONDS
        current = (
            f"{resource}: {reason}"
            for resource, (reason, at) in self._failures.items()
            if at > since
        )
        return next(current, "")

    def count_watch_events(self, resource: str, count: int) -> None:
        self._mark_healthy(resource)

    def observe_list(self, resource: str, cause: RelistCause, objects: int) -> None:
        self._mark_healthy(resource)
        self._changed.set()

    def count_watch_end(self, resource: str, reason: str) -> None:
        # Servers close watches regularly, and may not serve an optional kind.
        if reason not in ("closed", "NotFound"):
            self._failures[resource] = reason, time.monotonic()
            self._changed.set()

    def _mark_healthy(self, resource: str) -> None:
        if self._failures.pop(resource, None) is not None:
            self._changed.set()
