"""Runs an agent or a conductor as the only work of a process, until SIGTERM or Ctrl-C."""

import asyncio
import signal
from collections.abc import Coroutine, Mapping
from typing import Any

from kilonova.component.failure import CommandFailed
from kilonova.instances.engine.agent import Agent, NotAccepted
from kilonova.instances.engine.api import ConductorApi, agent_routes
from kilonova.instances.engine.conductor import Conductor
from kilonova.instances.engine.metrics import EngineMetrics
from kilonova.instances.engine.settings import (
    AgentSettings,
    ConductorSettings,
    EngineSettings,
    read_settings,
)
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.observability.structured_logging import configure_logging
from kilonova.kube.serving.health_server import metrics_handler
from kilonova.kube.serving.http_server import format_bind_error, open_listener
from kilonova.kube.serving.routing import RequestHandler
from kilonova.kube.serving.web_server import WebServer
from kilonova.openai_api.responses import error_reply

_GRACE_SECONDS = 10
_JOIN_BACKLOG = 1024


def run_agent(settings: AgentSettings) -> None:
    """Run an agent; `CommandFailed` if the conductor refuses it for good, or a port is in use."""
    metrics = Metrics()
    agent = Agent(settings, EngineMetrics(metrics))
    _run(settings, agent.run(), agent_routes(agent), metrics)


def run_conductor(settings: ConductorSettings) -> None:
    """Run a conductor; `CommandFailed` if a port is in use."""
    metrics = Metrics()
    engine_metrics = EngineMetrics(metrics)
    conductor = Conductor(settings, engine_metrics)
    try:
        listener = open_listener(settings.host, settings.join_port, _JOIN_BACKLOG)
    except OSError as error:
        problem = format_bind_error(error).lower()
        raise CommandFailed(f"--join-port {settings.join_port}: {problem}") from error
    api = ConductorApi(settings, conductor, engine_metrics)
    _run(settings, conductor.run(listener), api.routes(), metrics)


def run_from_environment(environment: Mapping[str, str]) -> None:
    """Run what the variables of a pod specify."""
    settings = read_settings(environment)
    if isinstance(settings, AgentSettings):
        run_agent(settings)
    else:
        run_conductor(settings)


def _run(
    settings: EngineSettings,
    work: Coroutine[Any, Any, None],
    routes: Mapping[str, RequestHandler],
    metrics: Metrics,
) -> None:
    configure_logging()
    web = WebServer(
        "engine",
        {**routes, "/metrics": metrics_handler(metrics)},
        host=settings.host,
        port=settings.port,
        grace=_GRACE_SECONDS,
        error_reply=error_reply,
    )
    try:
        web.bind()
    except OSError as error:
        work.close()
        problem = format_bind_error(error).lower()
        raise CommandFailed(f"--port {settings.port}: {problem}") from error
    asyncio.run(_run_until_stopped(work, web))


async def _run_until_stopped(work: Coroutine[Any, Any, None], web: WebServer) -> None:
    """Run both. A signal ends the server first: requests in flight still need the agents."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, web.stop)
    working, serving = asyncio.create_task(work), asyncio.create_task(web.run())
    await asyncio.wait((working, serving), return_when=asyncio.FIRST_COMPLETED)
    web.stop()
    await serving
    working.cancel()
    try:
        await working
    except asyncio.CancelledError:
        return
    except NotAccepted as error:
        raise CommandFailed(f"the conductor refuses this agent: {error}") from error
