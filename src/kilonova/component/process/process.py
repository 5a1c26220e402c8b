"""A component as a process of its own: client, leader election, manager, health and metrics.

Every replica runs informers and serves its ports; only the leader writes. A process that loses its
Lease exits, and is restarted by its supervisor.

    async def assemble(process: Process) -> None:
        process.manager.add(...)
        process.manager.add_leader_runnables(...)  # with process.leader_client

    run_process("kilonova-thing", options, assemble)
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.failure import CommandFailed
from kilonova.component.process.preflight import require_namespace
from kilonova.kube import Client, Manager, Runnable, RunnableFailed, Transport, load_client_config
from kilonova.kube.client.http_transport import HttpTransport
from kilonova.kube.election import (
    ApiLeaseStore,
    FencedTransport,
    LeaderElectionTiming,
    LeaderElector,
)
from kilonova.kube.observability import structured_logging
from kilonova.kube.observability.metrics import InstrumentedTransport, Metrics
from kilonova.kube.serving.health import Health
from kilonova.kube.serving.health_server import health_server
from kilonova.kube.serving.http_server import format_bind_error

NAMESPACE = "kilonova-system"
HEALTH_PORT = 8081

LogFormat = Literal["json", "text"]


@dataclass(frozen=True, slots=True)
class ElectionOptions:
    """The Lease of the leader election, and its timing."""

    lease: str
    timing: LeaderElectionTiming = field(default_factory=LeaderElectionTiming)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """The options that all processes share."""

    kubeconfig: Path | None
    context: str | None
    namespace: str
    """The namespace of its own objects, such as the Lease."""
    health_port: int
    election: ElectionOptions | None
    log_format: LogFormat | None
    log_level: str | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """What a component gets to add its runnables to."""

    client: Client
    """For every replica."""
    leader_client: Client
    """For the leader: its writes are fenced and fail once leadership is lost."""
    manager: Manager
    health: Health
    metrics: Metrics


Assemble = Callable[[Process], Awaitable[None]]
"""Checks the component's prerequisites on the cluster, and adds its runnables."""


def run_process(name: str, options: ProcessOptions, assemble: Assemble) -> None:
    """Run until stopped; `CommandFailed` if it cannot start or fails.

    `name` is the field manager of its writes.
    """
    import uvloop

    configure_logging(options)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_connect_and_run(name, options, assemble))


def configure_logging(options: ProcessOptions) -> None:
    """Configure logging; `run_process` calls it, so only a caller that logs earlier has to."""
    try:
        as_json = None if options.log_format is None else options.log_format == "json"
        structured_logging.configure_logging(options.log_level, as_json=as_json)
    except ValueError as error:
        raise CommandFailed(str(error)) from error


async def _connect_and_run(name: str, options: ProcessOptions, assemble: Assemble) -> None:
    metrics = Metrics()
    with translate_cluster_errors():
        access = load_client_config(options.kubeconfig, options.context)
    transport = InstrumentedTransport(HttpTransport(access.endpoint, access.credentials), metrics)
    async with Client(transport, field_manager=name) as client:
        with translate_cluster_errors():
            process = _build_process(name, options, client, transport, metrics)
            await assemble(process)
            if options.election is not None:
                await require_namespace(client, options.namespace)
        try:
            await process.manager.run()
        except RunnableFailed as failure:
            raise CommandFailed(str(failure)) from failure


def _build_process(
    name: str, options: ProcessOptions, client: Client, transport: Transport, metrics: Metrics
) -> Process:
    elector, leader_client = None, client
    if options.election is not None:
        elector = LeaderElector(
            ApiLeaseStore(client, options.election.lease, options.namespace),
            timing=options.election.timing,
            on_leadership_change=metrics.leader_status_setter(options.election.lease),
        )
        leader_client = _build_fenced_client(name, transport, elector)
    manager = Manager(election=elector)
    health = Health()
    health.add_readiness_check("stopping", lambda: "stopping" if manager.is_stopping else None)
    health.add_readiness_check("caches", lambda: _unsynced_message(manager.unsynced_caches()))
    port = options.health_port
    manager.add(bind_server(health_server(health, metrics, port=port), f"--health-port {port}"))
    return Process(client, leader_client, manager, health, metrics)


def _build_fenced_client(name: str, transport: Transport, elector: LeaderElector) -> Client:
    fenced = FencedTransport(transport, lambda: elector.leadership)
    return Client(fenced, field_manager=name)


class BindableServer(Runnable, Protocol):
    """A server that binds its port before it runs."""

    def bind(self) -> int: ...


S = TypeVar("S", bound=BindableServer)


def bind_server(server: S, flag: str) -> S:
    """Bind a server's port before anything starts, and return the server."""
    bind_port(server, flag)
    return server


def bind_port(server: BindableServer, flag: str) -> int:
    """Bind a server's port and return it; `CommandFailed` names the flag if it is not available."""
    try:
        return server.bind()
    except OSError as error:
        raise CommandFailed(
            f"{flag} cannot be used ({format_bind_error(error)}): choose another (0 for any free)"
        ) from error


def _unsynced_message(names: list[str]) -> str | None:
    return f"not synced: {', '.join(names)}" if names else None
