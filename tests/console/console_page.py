"""A running console, and clients that use it over HTTP as a page does."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from kilonova.component.console import ConsoleContribution, Row
from kilonova.console import Console, ConsoleSettings, Explain, build_console
from kilonova.kube import Client
from kilonova.scheduler import console as scheduler
from tests.workloads.workload_cluster import run_runnables

TOKEN = "a-token-for-the-tests"


@asynccontextmanager
async def running_console(
    client: Client,
    *,
    allow_actions: bool = False,
    explain: Explain | None = None,
    contributions: Sequence[ConsoleContribution] = (scheduler.CONTRIBUTION,),
) -> AsyncGenerator[Console]:
    """A console from start to stop."""
    settings = ConsoleSettings(token=TOKEN, cluster="test", allow_actions=allow_actions)
    console = build_console(client, settings, explain, contributions=contributions)
    console.bind()
    async with run_runnables(console.runnables, ()):
        yield console


def to_wire(row: Row) -> Any:
    """A row as sent to the page."""
    return json.loads(msgspec.json.encode(row))


def console_address(console: Console) -> str:
    """The URL of a console without its token."""
    return console.link.partition("/?")[0]


@asynccontextmanager
async def http_session(
    console: Console, token: str | None = TOKEN
) -> AsyncGenerator[aiohttp.ClientSession]:
    """An HTTP session with a token, or without."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(console_address(console), headers=headers) as session:
        yield session


async def post_action(console: Console, **action: Any) -> tuple[int, str]:
    """Send an action; returns status and message."""
    async with http_session(console) as session, session.post("/api/actions", json=action) as reply:
        return reply.status, (await reply.json())["message"]


@dataclass
class ConsolePage:
    """An open page: applies the event stream to its tables."""

    content: aiohttp.StreamReader
    buffer: bytearray = field(default_factory=bytearray)
    server_info: Any = None
    tables: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    resets: list[str] = field(default_factory=list[str])
    loading: list[list[str]] = field(default_factory=list[list[str]])
    table_errors: dict[str, Any] = field(default_factory=dict[str, Any])
    degraded: dict[str, str] = field(default_factory=dict[str, str])

    async def wait_until(
        self, condition: Callable[["ConsolePage"], Any], within: float = 20.0
    ) -> Any:
        """Read until a condition holds; returns its value."""
        async with asyncio.timeout(within):
            while not (found := condition(self)):
                await self.read()
        return found

    async def wait_for_tables(self) -> "ConsolePage":
        """Read until all tables are received."""
        await self.wait_until(
            lambda page: page.server_info and set(page.server_info["tables"]) <= set(page.resets)
        )
        return self

    def row(self, table: str, id: str) -> Any:
        return self.tables.get(table, {}).get(id)

    async def read(self) -> str:
        """Read one event; returns its name."""
        while b"\n\n" not in self.buffer:
            chunk = await self.content.readany()
            assert chunk, "the stream has ended"
            self.buffer += chunk
        message, _, rest = bytes(self.buffer).partition(b"\n\n")
        self.buffer = bytearray(rest)
        fields = dict(line.split(": ", 1) for line in message.decode().split("\n"))
        event = fields.get("event", "")
        if event:
            self._handle_event(event, json.loads(fields["data"]))
        return event

    def _handle_event(self, event: str, data: Any) -> None:
        if event == "hello":
            self.server_info = data
        elif event == "loading":
            self.loading.append(data["tables"])
        elif event == "table-errors":
            self.table_errors = {each["table"]: each for each in data["tables"]}
        elif event == "degraded":
            self.degraded = {each["name"]: each["problem"] for each in data["components"]}
        elif event == "rows":
            if data.get("reset"):
                self.tables[data["table"]] = {}
                self.resets.append(data["table"])
            table = self.tables[data["table"]]
            table.update({row["id"]: row for row in data["upserted"]})
            for id in data["deleted"]:
                table.pop(id, None)


@asynccontextmanager
async def open_page(console: Console) -> AsyncGenerator[ConsolePage]:
    """An open page of a console."""
    async with http_session(console) as session, session.get("/api/stream") as reply:
        assert reply.status == 200
        yield ConsolePage(reply.content)
