"""Puts a console together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any

from kilonova import __version__
from kilonova.api.schedulingnames import SCHEDULER
from kilonova.console.doors import Doors, Explain
from kilonova.console.feeds import Feed
from kilonova.console.files import read_files
from kilonova.console.gate import Gate, checked_token
from kilonova.console.replies import HEADERS
from kilonova.console.tables import TABLES, Table
from kilonova.console.troubles import Troubles
from kilonova.console.usage import UsagePoller, usage_store, usage_table
from kilonova.console.viewers import Greeting, Viewers
from kilonova.console.workloads import WorkloadFeed, Workloads
from kilonova.kube import UNMEASURED, Backoff, Client, Instruments, Part, Reflector
from kilonova.kube.webserver import WebServer

_GRACE_SECONDS = 2
"""For requests under way when it stops, and for readers too slow to take the end of a stream."""

_AGAIN = Backoff(0.5, 10.0)
"""Somebody may be looking at a table that waits for a right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Where a console is, who may see it, and whether things can be done from it."""

    token: str = field(repr=False)
    cluster: str
    """What the page calls the cluster."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    allow_actions: bool = False
    schedulers: frozenset[str] = frozenset({SCHEDULER})
    """Those whose pods count in queues."""

    def __post_init__(self) -> None:
        checked_token(self.token)


class Console:
    """A console. Add its `parts` to a manager; `bind` says the port before they run."""

    def __init__(self, settings: ConsoleSettings, server: WebServer, parts: Sequence[Part]) -> None:
        self.name = server.name
        self.parts = (*parts, server)
        """In the order in which they start; the server ends first."""
        self._settings = settings
        self._server = server

    def bind(self) -> int:
        """Take the port now, and say which. OSError when it is taken."""
        return self._server.bind()

    @property
    def link(self) -> str:
        """What to open in a browser: it holds the token."""
        host = _reached_at(self._settings.host)
        return f"http://{host}:{self.bind()}/?token={self._settings.token}"


def build_console(
    client: Client,
    settings: ConsoleSettings,
    explain: Explain | None = None,
    *,
    tables: Sequence[Table[Any]] = TABLES,
    instruments: Instruments = UNMEASURED,
) -> Console:
    """A console on the cluster that a client reaches; it reads, and acts, as that client may.

    Kinds that the cluster does not have count as empty; of those that it may not read the pages say
    so, until it may.
    """
    troubles = Troubles()
    caches: list[Reflector[Any]] = [
        Reflector(
            client,
            table.resource,
            optional=True,
            on_trouble=partial(troubles.hear, table),
            backoff=_AGAIN,
            instruments=instruments,
        )
        for table in tables
    ]
    feeds: list[Feed[Any]] = [
        Feed(table, cache.store) for table, cache in zip(tables, caches, strict=True)
    ]
    stores = {table.name: cache.store for table, cache in zip(tables, caches, strict=True)}
    feeds.append(WorkloadFeed(Workloads(stores, lambda name: troubles.of(name) is not None)))
    usage = usage_store()
    feeds.append(Feed(usage_table(stores.get("nodes")), usage))
    greeting = Greeting(
        __version__, settings.cluster, settings.allow_actions, sorted(settings.schedulers)
    )
    viewers = Viewers(greeting, feeds, caches, troubles)
    poller = UsagePoller(client, usage, viewers.somebody_looks)
    gate = Gate(settings.token, lambda: server.bind())
    doors = Doors(
        client, gate, read_files(), viewers, tables, explain, allow_actions=settings.allow_actions
    )
    server = WebServer(
        "console",
        doors.endpoints(),
        host=settings.host,
        port=settings.port,
        body_limit=64 * 1024,
        grace=_GRACE_SECONDS,
        headers=HEADERS,
    )
    return Console(settings, server, (*caches, viewers, poller))


def _reached_at(host: str) -> str:
    """The host as it stands in a link: this machine, where it listens on all addresses."""
    if not host:
        return "127.0.0.1"
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        # Of all IPv6 addresses none is an IPv4 one.
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return f"[{host}]" if address.version == 6 else host
