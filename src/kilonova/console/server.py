"""Assembles a console: informers, feeds, viewers, web server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any

from kilonova import __version__
from kilonova.api.scheduling_names import SCHEDULER_NAME
from kilonova.component.console import ConsoleContribution
from kilonova.component.health import ComponentProblems
from kilonova.console import core
from kilonova.console.description import Assembly
from kilonova.console.feeds.feed import Feed
from kilonova.console.feeds.gpu_readings import READINGS, GpuReadings, build_readings_store
from kilonova.console.feeds.table_errors import TableErrors
from kilonova.console.feeds.usage import UsagePoller, build_usage_store, build_usage_table
from kilonova.console.feeds.viewers import ServerInfo, Viewers
from kilonova.console.feeds.workloads import WorkloadFeed, WorkloadIndex
from kilonova.console.history.sampler import SeriesSampler
from kilonova.console.history.tally import Tally
from kilonova.console.rows.model import GpuMetricsRow, UsageRow, WorkloadRow
from kilonova.console.web.handlers import ConsoleHandlers, DataSources, Explain
from kilonova.console.web.responses import SECURITY_HEADERS, error_reply
from kilonova.console.web.token_auth import TokenAuthenticator, validate_token
from kilonova.kube import NO_RUNTIME_METRICS, Backoff, Client, Reflector, Runnable, RuntimeMetrics
from kilonova.kube.serving.web_server import WebServer

_GRACE_SECONDS = 2
"""Grace period for requests in flight, and for slow viewers to receive the end of the stream."""

_RETRY_BACKOFF = Backoff(0.5, 10.0)
"""Retries are frequent: a viewer may be waiting for a permission to be granted."""

DERIVED_TABLES = {"workloads": WorkloadRow, "usage": UsageRow, "gpumetrics": GpuMetricsRow}
"""Tables that are not of one resource: joined from others, and polled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Address, token and permissions of a console."""

    token: str = field(repr=False)
    cluster: str
    """The name of the cluster on the page."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 selects a free port."""
    allow_actions: bool = False
    schedulers: frozenset[str] = frozenset({SCHEDULER_NAME})
    """Schedulers whose pods count in queues."""

    def __post_init__(self) -> None:
        validate_token(self.token)


class Console:
    """A console. Add its `runnables` to a manager; `bind` returns the port before they run."""

    def __init__(
        self, settings: ConsoleSettings, server: WebServer, runnables: Sequence[Runnable]
    ) -> None:
        self.name = server.name
        self.runnables = (*runnables, server)
        """In start order; they stop in reverse order, the server first."""
        self._settings = settings
        self._server = server

    def bind(self) -> int:
        """Bind the port now, and return it. OSError if it is in use."""
        return self._server.bind()

    @property
    def link(self) -> str:
        """The URL to open in a browser; contains the token."""
        host = _link_host(self._settings.host)
        return f"http://{host}:{self.bind()}/?token={self._settings.token}"


def build_console(
    client: Client,
    settings: ConsoleSettings,
    explain: Explain | None = None,
    *,
    contributions: Sequence[ConsoleContribution] = (),
    problems: ComponentProblems | None = None,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
) -> Console:
    """Build a console for the cluster of a client, with that client's permissions.

    `contributions` are those of components, beside its own; `InvalidContribution` if they are.
    `problems` are shown on every page.
    Tables of resources that the cluster does not serve are empty; tables that the client may not
    read are reported on the page, and retried.
    """
    assembly = Assembly((core.CONTRIBUTION, *contributions), DERIVED_TABLES)
    tables = assembly.tables
    table_errors = TableErrors()
    reflectors: list[Reflector[Any]] = [
        Reflector(
            client,
            table.resource,
            optional=True,
            on_watch_error=partial(table_errors.report, table),
            backoff=_RETRY_BACKOFF,
            runtime_metrics=runtime_metrics,
        )
        for table in tables
    ]
    feeds: list[Feed[Any]] = [
        Feed(table, reflector.store) for table, reflector in zip(tables, reflectors, strict=True)
    ]
    stores = {
        table.name: reflector.store for table, reflector in zip(tables, reflectors, strict=True)
    }
    feeds.append(
        WorkloadFeed(WorkloadIndex(stores, lambda name: table_errors.get(name) is not None))
    )
    usage, gpu_readings = build_usage_store(), build_readings_store()
    feeds.append(Feed(build_usage_table(stores.get("nodes")), usage))
    feeds.append(Feed(READINGS, gpu_readings))
    server_info = ServerInfo(
        __version__, settings.cluster, settings.allow_actions, sorted(settings.schedulers)
    )
    sampler = SeriesSampler(
        client,
        (Tally(series, stores[series.table]) for series in assembly.series),
        assembly.metric_series,
        lambda table: table_errors.get(table) is not None,
    )
    viewers = Viewers(server_info, feeds, reflectors, table_errors, problems)
    poller = UsagePoller(
        client, usage, GpuReadings(gpu_readings, assembly.gpu_metrics), viewers.wait_for_viewer
    )
    authenticator = TokenAuthenticator(settings.token, lambda: server.bind())
    handlers = ConsoleHandlers(
        client,
        authenticator,
        assembly,
        DataSources(viewers, sampler, explain),
        allow_actions=settings.allow_actions,
    )
    server = WebServer(
        "console",
        handlers.routes(),
        host=settings.host,
        port=settings.port,
        body_limit=64 * 1024,
        grace=_GRACE_SECONDS,
        headers=SECURITY_HEADERS,
        error_reply=error_reply,
    )
    return Console(settings, server, (*reflectors, viewers, poller, sampler))


def _link_host(host: str) -> str:
    """The host for the link: loopback if the server listens on all addresses."""
    if not host:
        return "127.0.0.1"
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        # An IPv6 wildcard address may not accept IPv4 connections.
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return f"[{host}]" if address.version == 6 else host
