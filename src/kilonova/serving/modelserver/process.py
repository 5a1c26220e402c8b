"""Runs a model server as the only work of a process, until SIGTERM or Ctrl-C.

The ports are open from the start; the server is ready once its models are loaded. SIGTERM makes it
not ready at once; for `drain_delay` it still accepts requests, as gateways need a moment to notice;
then it refuses further ones, finishes those in flight, and exits. A second signal, or Ctrl-C, skips
the delay.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Protocol

import uvloop

from kilonova.component.failure import CommandFailed
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.observability.structured_logging import configure_logging, get_logger
from kilonova.kube.serving.health import Health
from kilonova.kube.serving.http_server import format_bind_error
from kilonova.kube.serving.web_server import WebServer
from kilonova.openai_api.responses import error_reply
from kilonova.serving.modelserver.definitions import build_registry
from kilonova.serving.modelserver.errors import InferenceFailed
from kilonova.serving.modelserver.execution import InFlight
from kilonova.serving.modelserver.llm.metrics import LlmMetrics
from kilonova.serving.modelserver.metrics import metrics_handler
from kilonova.serving.modelserver.openai_handlers import OpenAIHandlers
from kilonova.serving.modelserver.registry import ModelRegistry
from kilonova.serving.modelserver.settings import ServerSettings
from kilonova.serving.modelserver.tracing import NO_TRACING, OtlpTracing, RequestTracing
from kilonova.serving.modelserver.v2.http_handlers import V2Handlers

_GRACE_SECONDS = 3
"""For responses that are still being written when all requests are answered."""
_MAX_STREAMS = 4096
_SERVICE_VARIABLE = "OTEL_SERVICE_NAME"
"""OpenTelemetry's variable for the name of a service in traces."""
_DAY = 86400.0
_log = get_logger(__name__)


class _Server(Protocol):
    def bind(self) -> int: ...
    async def run(self) -> None: ...
    def stop(self) -> None: ...


def run_model_server(settings: ServerSettings) -> None:
    """Run until a signal; `CommandFailed` if a port is in use or a model cannot be loaded."""
    configure_logging()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(settings))


class _Readiness:
    def __init__(self) -> None:
        self.is_ready = False

    def read(self) -> bool:
        return self.is_ready


async def _run(settings: ServerSettings) -> None:
    metrics = Metrics()
    registry, required, optional = build_registry(settings, LlmMetrics(metrics))
    tracing = (
        OtlpTracing(settings.otlp_endpoint, os.environ.get(_SERVICE_VARIABLE, "kilonova"))
        if settings.otlp_endpoint
        else NO_TRACING
    )
    readiness, responses = _Readiness(), InFlight()
    servers = _build_servers(settings, registry, metrics, readiness, responses, tracing)
    ports = dict(_bind(servers))
    # One line for programs that started it with ports 0.
    _log.info("listening", **ports)
    with _StopSignals() as signals:
        running = [asyncio.create_task(server.run()) for _, server in servers]
        try:
            loading = asyncio.create_task(_load_models(registry, required, optional))
            await signals.first_of(loading)
            if loading.done():
                loading.result()
                readiness.is_ready = True
                _log.info("ready", models=[each.spec.name for each in registry.loaded()])
                await signals.first_of(*running)
            else:
                loading.cancel()
            readiness.is_ready = False
            await _drain(settings, registry, responses, signals)
        finally:
            for _, server in servers:
                server.stop()
            await asyncio.gather(*running)
            await tracing.close()


def _build_servers(
    settings: ServerSettings,
    registry: ModelRegistry,
    metrics: Metrics,
    readiness: _Readiness,
    responses: InFlight,
    tracing: RequestTracing,
) -> list[tuple[str, _Server]]:
    from kilonova.kube.grpc import GrpcServer, ServerLimits
    from kilonova.serving.grpc.inference_grpc import grpc_inference_service_service
    from kilonova.serving.modelserver.v2.grpc_servicer import InferenceServicer

    limit = settings.max_request_bytes
    http = WebServer(
        "http",
        {
            **V2Handlers(registry, readiness.read, tracing).routes(),
            **OpenAIHandlers(registry, responses, tracing).routes(),
        },
        host=settings.host,
        port=settings.http_port,
        body_limit=limit,
        grace=_GRACE_SECONDS,
        error_reply=error_reply,
    )
    grpc = GrpcServer(
        "grpc",
        [grpc_inference_service_service(InferenceServicer(registry, readiness.read, tracing))],
        f"[{settings.host}]:{settings.grpc_port}"
        if ":" in settings.host
        else f"{settings.host}:{settings.grpc_port}",
        limits=ServerLimits(
            max_request_bytes=limit,
            max_reply_bytes=limit,
            max_streams_per_connection=_MAX_STREAMS,
            max_concurrent_rpcs=_MAX_STREAMS,
            max_unary_seconds=_DAY,
        ),
        grace=_GRACE_SECONDS,
    )
    health = Health()
    health.add_readiness_check("models", lambda: None if readiness.is_ready else "not ready")
    routes = {**health.routes(), "/metrics": metrics_handler(metrics, registry)}
    own = WebServer("metrics", routes, host=settings.host, port=settings.metrics_port)
    return [("http", http), ("grpc", grpc), ("metrics", own)]


def _bind(servers: list[tuple[str, _Server]]) -> Iterator[tuple[str, int]]:
    for name, server in servers:
        try:
            yield name, server.bind()
        except OSError as error:
            problem = format_bind_error(error).lower()
            raise CommandFailed(f"--{name}-port: {problem}") from error


async def _load_models(registry: ModelRegistry, required: list[str], optional: list[str]) -> None:
    for name in required:
        try:
            await registry.load(name)
        except InferenceFailed as error:
            raise CommandFailed(str(error)) from error
    for name in optional:
        with contextlib.suppress(InferenceFailed):  # logged, and in the index
            await registry.load(name)


async def _drain(
    settings: ServerSettings, registry: ModelRegistry, responses: InFlight, signals: "_StopSignals"
) -> None:
    if signals.count == 1 and signals.allows_delay:
        _log.info("stopping", accepting_seconds=settings.drain_delay)
        await signals.wait_for_another(settings.drain_delay)
    try:
        async with asyncio.timeout(settings.drain_timeout):
            await registry.stop()
            await responses.wait_until_idle()
    except TimeoutError:
        _log.warning("requests in flight are abandoned", after_seconds=settings.drain_timeout)


class _StopSignals:
    """SIGTERM and SIGINT, while it is entered."""

    def __init__(self) -> None:
        self.count = 0
        self.allows_delay = True
        self._received = asyncio.Event()

    def __enter__(self) -> "_StopSignals":
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._receive, number)
        return self

    def __exit__(self, *error: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    async def first_of(self, *tasks: asyncio.Task[None]) -> None:
        """Return when a signal has arrived, or a task has ended."""
        waiting = asyncio.create_task(self._received.wait())
        try:
            await asyncio.wait((waiting, *tasks), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def wait_for_another(self, seconds: float) -> None:
        """Return after this time, or at the next signal."""
        self._received.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._received.wait(), seconds)

    def _receive(self, number: signal.Signals) -> None:
        self.count += 1
        self.allows_delay = self.allows_delay and number == signal.SIGTERM
        self._received.set()
