"""A console on a cluster, and who looks at it: over HTTP, as a page does."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from kilonova.console import TABLES, Console, ConsoleSettings, Explain, build_console
from kilonova.console.rows import Row
from kilonova.kube import Client
from tests.workloads.ground import parts_running

TOKEN = "a-token-that-nobody-guesses"


@asynccontextmanager
async def console_on(
    client: Client, *, allow_actions: bool = False, explain: Explain | None = None
) -> AsyncGenerator[Console]:
    """A console from start to stop."""
    settings = ConsoleSettings(token=TOKEN, cluster="test", allow_actions=allow_actions)
    console = build_console(client, settings, explain, tables=TABLES)
    console.bind()
    async with parts_running(console.parts, ()):
        yield console


def on_the_wire(row: Row) -> Any:
    """A row as the page gets it."""
    return json.loads(msgspec.json.encode(row))


def address(console: Console) -> str:
    """Where a console is, without its token."""
    return console.link.partition("/?")[0]


@asynccontextmanager
async def browser(
    console: Console, token: str | None = TOKEN
) -> AsyncGenerator[aiohttp.ClientSession]:
    """Somebody with a token, or without."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(address(console), headers=headers) as session:
        yield session


async def act(console: Console, **action: Any) -> tuple[int, str]:
    """Ask for something to be done: the status, and what was said."""
    async with browser(console) as session, session.post("/api/actions", json=action) as reply:
        return reply.status, (await reply.json())["message"]


@dataclass
class Page:
    """An open page: it keeps the tables as the stream tells them."""

    content: aiohttp.StreamReader
    unread: bytearray = field(default_factory=bytearray)
    hello: Any = None
    tables: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    resets: list[str] = field(default_factory=list[str])
    loading: list[list[str]] = field(default_factory=list[list[str]])
    troubles: dict[str, Any] = field(default_factory=dict[str, Any])

    async def until(self, holds: Callable[["Page"], Any], within: float = 20.0) -> Any:
        """Read on until something holds; returns what it says."""
        async with asyncio.timeout(within):
            while not (found := holds(self)):
                await self.read()
        return found

    async def filled(self) -> "Page":
        """Read until all tables have come."""
        await self.until(lambda page: page.hello and set(page.hello["tables"]) <= set(page.resets))
        return self

    def row(self, table: str, id: str) -> Any:
        return self.tables.get(table, {}).get(id)

    async def read(self) -> str:
        """Take one event, and say which."""
        while b"\n\n" not in self.unread:
            came = await self.content.readany()
            assert came, "the stream has ended"
            self.unread += came
        told, _, rest = bytes(self.unread).partition(b"\n\n")
        self.unread = bytearray(rest)
        fields = dict(line.split(": ", 1) for line in told.decode().split("\n"))
        event = fields.get("event", "")
        if event:
            self._take(event, json.loads(fields["data"]))
        return event

    def _take(self, event: str, told: Any) -> None:
        if event == "hello":
            self.hello = told
        elif event == "loading":
            self.loading.append(told["tables"])
        elif event == "trouble":
            self.troubles = {each["table"]: each for each in told["tables"]}
        elif event == "rows":
            if told.get("reset"):
                self.tables[told["table"]] = {}
                self.resets.append(told["table"])
            table = self.tables[told["table"]]
            table.update({row["id"]: row for row in told["put"]})
            for id in told["gone"]:
                table.pop(id, None)


@asynccontextmanager
async def page_of(console: Console) -> AsyncGenerator[Page]:
    """A page that looks at a console."""
    async with browser(console) as session, session.get("/api/stream") as reply:
        assert reply.status == 200
        yield Page(reply.content)
