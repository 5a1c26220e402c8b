"""A part of Kilonova as a process of its own, on any cluster: what all of them have in common.

Every copy keeps caches and answers on its ports; only the one that holds the Lease writes. A
process that loses the Lease ends, and whoever looks after it starts it again.

    async def assemble(process: Process) -> None:
        process.manager.add(...)
        process.manager.add_leading(...)  # over process.leading

    run_process("kilonova-thing", options, assemble)
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from kilonova.cli.failure import CommandFailed
from kilonova.cli.preflight import require_namespace
from kilonova.cli.reasons import explained
from kilonova.kube import Client, Manager, Part, PartFailed, Transport, find_access, logging
from kilonova.kube.election import Elector, FencedTransport, Timing
from kilonova.kube.health import Health, health_server
from kilonova.kube.http import HttpTransport
from kilonova.kube.metrics import MeasuredTransport, Metrics
from kilonova.kube.serving import why_not_had

NAMESPACE = "kilonova-system"
HEALTH_PORT = 8081

LogFormat = Literal["json", "text"]


@dataclass(frozen=True, slots=True)
class Election:
    """The Lease that one of several copies holds."""

    lease: str
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """How a process reaches its cluster, and how others see it."""

    kubeconfig: Path | None
    context: str | None
    namespace: str
    """Where what it keeps for itself is: its Lease."""
    health_port: int
    election: Election | None
    log_format: LogFormat | None
    log_level: str | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """What a process consists of before its own parts are added."""

    client: Client
    """For what every copy does."""
    leading: Client
    """For what only the one does that leads: nothing is written once it no longer does."""
    manager: Manager
    health: Health
    metrics: Metrics


Assemble = Callable[[Process], Awaitable[None]]
"""Checks that the cluster has what the process needs, and adds its parts."""


def run_process(name: str, options: ProcessOptions, assemble: Assemble) -> None:
    """Run until asked to stop; `CommandFailed` when it cannot, or can no longer.

    `name` is who writes, in the managed fields of objects.
    """
    import uvloop

    configure_logging(options)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(name, options, assemble))


def configure_logging(options: ProcessOptions) -> None:
    """Log as the options say; `run_process` does it first, for those who log nothing before."""
    try:
        as_json = None if options.log_format is None else options.log_format == "json"
        logging.configure(options.log_level, as_json=as_json)
    except ValueError as error:
        raise CommandFailed(str(error)) from error


async def _run(name: str, options: ProcessOptions, assemble: Assemble) -> None:
    metrics = Metrics()
    with explained():
        access = find_access(options.kubeconfig, options.context)
    transport = MeasuredTransport(HttpTransport(access.endpoint, access.credentials), metrics)
    async with Client(transport, field_manager=name) as client:
        with explained():
            process = _process(name, options, client, transport, metrics)
            await assemble(process)
            if options.election is not None:
                await require_namespace(client, options.namespace)
        try:
            await process.manager.run()
        except PartFailed as failure:
            raise CommandFailed(str(failure)) from failure


def _process(
    name: str, options: ProcessOptions, client: Client, transport: Transport, metrics: Metrics
) -> Process:
    elector, leading = None, client
    if options.election is not None:
        elector = Elector(
            client,
            options.election.lease,
            options.namespace,
            timing=options.election.timing,
            changed=metrics.leads(options.election.lease),
        )
        leading = _fenced(name, transport, elector)
    manager = Manager(election=elector)
    health = Health()
    health.add_readiness("stopping", lambda: "it stops" if manager.stopping else None)
    health.add_readiness("caches", lambda: _not_filled(manager.not_ready()))
    port = options.health_port
    manager.add(bound(health_server(health, metrics, port=port), f"--health-port {port}"))
    return Process(client, leading, manager, health, metrics)


def _fenced(name: str, transport: Transport, elector: Elector) -> Client:
    fenced = FencedTransport(transport, lambda: elector.leadership)
    return Client(fenced, field_manager=name)


class Server(Part, Protocol):
    """A part that listens."""

    def bind(self) -> int: ...


S = TypeVar("S", bound=Server)


def bound(server: S, asked: str) -> S:
    """A server that has its port now, so that nothing begins that could not be served."""
    taken_port(server, asked)
    return server


def taken_port(server: Server, asked: str) -> int:
    """The port that a server takes now; `CommandFailed` names the option if it cannot be had."""
    try:
        return server.bind()
    except OSError as error:
        raise CommandFailed(
            f"{asked} cannot be had ({why_not_had(error)}): choose another (0 takes a free one)"
        ) from error


def _not_filled(names: list[str]) -> str | None:
    return f"not filled yet: {', '.join(names)}" if names else None
