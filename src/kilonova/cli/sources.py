"""Rows of a cluster: listed once, or kept as they change."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import typer

from kilonova.cli.views import Tables
from kilonova.console.tables import TABLES
from kilonova.kube import (
    Backoff,
    Client,
    Forbidden,
    Key,
    NotFound,
    Reflector,
    Request,
)
from kilonova.kube.instruments import RelistCause, Unmeasured

_LONGEST_PAUSE = 4.0
_MENDED = 2 * _LONGEST_PAUSE + 10.0
"""Seconds: also those that a connection may take to fail."""

Table = Literal[
    "nodes", "pods", "gangs", "sets", "cliques", "queues", "deployments", "statefulsets", "jobs"
]

_TABLES = {table.name: table for table in TABLES}


@dataclass(frozen=True, slots=True)
class Source:
    """A table to read: which objects, and whether one can do without them, where the cluster lacks
    the kind or does not show it to us."""

    table: Table
    namespace: str | None = None
    labels: str = ""
    optional: bool = False


def owner_sources(namespace: str | None = None) -> tuple[Source, ...]:
    """All that makes pods: so a workload is there also while it has none."""
    tables: tuple[Table, ...] = ("sets", "cliques", "deployments", "statefulsets", "jobs")
    return tuple(Source(table, namespace, optional=True) for table in tables)


async def readable(client: Client, sources: tuple[Source, ...]) -> tuple[Source, ...]:
    """The sources that we may read; which others there are is told on standard error."""
    asked = (_may_read(client, each) for each in sources)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    known: dict[Source, bool] = {}
    # Whichever answer comes first, the first source that one can not do without is told.
    for source, may in zip(sources, answers, strict=True):
        if isinstance(may, BaseException):
            raise may
        known[source] = may
    refused = [_TABLES[each.table].resource.plural for each in sources if not known[each]]
    if refused:
        names = ", ".join(refused)
        typer.echo(f"kilonova: you may not list {names}: what they say is left out", err=True)
    return tuple(each for each in sources if known[each])


async def _may_read(client: Client, source: Source) -> bool:
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


async def listed(client: Client, sources: tuple[Source, ...]) -> Tables:
    """The rows as they are now."""
    rows = await asyncio.gather(*(_list(client, each) for each in sources))
    found = {each.table: some for each, some in zip(sources, rows, strict=True)}
    return Tables(**found, are_selected=_are_selected(sources))


async def _list(client: Client, source: Source) -> list[Any]:
    resource, row = _TABLES[source.table].resource, _TABLES[source.table].row
    try:
        found = await client.list(
            resource, source.namespace, labels=source.labels, on_undecodable=lambda _: None
        )
    except NotFound:
        if source.optional:
            return []
        raise
    return [row(each) for each in found.items]


def _are_selected(sources: tuple[Source, ...]) -> bool:
    """Whether pods are chosen by labels."""
    return any(each.labels for each in sources if each.table == "pods")


class Following:
    """Rows that are kept as the cluster has them, while `run` runs."""

    def __init__(self, client: Client, sources: tuple[Source, ...]) -> None:
        self._client = client
        self._changed = asyncio.Event()
        self._rows: dict[Table, dict[Key, Any]] = {each.table: {} for each in sources}
        self._are_selected = _are_selected(sources)
        self._hearing = _Hearing(self._changed)
        self._reflectors = [self._reflector(each) for each in sources]

    @property
    def trouble(self) -> str:
        """Why changes do not come at the moment; empty if they do."""
        return self._hearing.trouble

    @property
    def filled(self) -> bool:
        """Whether all rows are there."""
        return all(each.synced for each in self._reflectors)

    def tables(self) -> Tables:
        """The rows as they are now."""
        found = {table: list(rows.values()) for table, rows in self._rows.items()}
        return Tables(**found, are_selected=self._are_selected)

    def touch(self) -> None:
        """Let `changed` return."""
        self._changed.set()

    async def changed(self, patience: float) -> None:
        """Wait until something has changed since the last call; not longer than `patience`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._changed.wait()
        self._changed.clear()

    async def run(self) -> None:
        """Follow, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._reflectors:
                tasks.create_task(each.run())

    def _reflector(self, source: Source) -> Reflector[Any]:
        resource, row = _TABLES[source.table].resource, _TABLES[source.table].row
        reflector: Reflector[Any] = Reflector(
            self._client,
            resource,
            source.namespace,
            labels=source.labels,
            optional=source.optional,
            backoff=Backoff(0.5, _LONGEST_PAUSE),
            instruments=self._hearing,
        )
        rows, key_of = self._rows[source.table], reflector.store.key_of

        def take(old: Any, new: Any) -> None:
            if new is None:
                rows.pop(key_of(old), None)
            else:
                rows[key_of(new)] = row(new)
            self._changed.set()

        reflector.store.subscribe(take)
        return reflector


class _Hearing(Unmeasured):
    """Knows of which resources nothing is heard.

    Who can not be reached is tried again every few seconds, and a failure told every time: what was
    told longer ago has mended, even if nothing has changed since.
    """

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed
        self._lost: dict[str, tuple[str, float]] = {}

    @property
    def trouble(self) -> str:
        since = time.monotonic() - _MENDED
        told = (f"{name}: {why}" for name, (why, at) in self._lost.items() if at > since)
        return next(told, "")

    def events_received(self, resource: str, count: int) -> None:
        self._heard(resource)

    def listed(self, resource: str, cause: RelistCause, objects: int) -> None:
        self._heard(resource)
        self._changed.set()

    def watch_ended(self, resource: str, reason: str) -> None:
        # The server ends watches now and then, and does not know every optional kind.
        if reason not in ("closed", "NotFound"):
            self._lost[resource] = reason, time.monotonic()
            self._changed.set()

    def _heard(self, resource: str) -> None:
        if self._lost.pop(resource, None) is not None:
            self._changed.set()
