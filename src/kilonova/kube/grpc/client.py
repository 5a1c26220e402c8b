"""A gRPC client: one channel for all stubs, with retries, deadlines and renewed certificates."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import grpc
import grpc.aio

from kilonova.kube.grpc.limits import ChannelOptions, Keepalive, to_milliseconds
from kilonova.kube.grpc.tls import ClientTls
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

_CHECK_SECONDS = 60.0
S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Times in seconds, sizes in bytes."""

    deadline: float = 10.0
    """Of an RPC with one request and one reply that is called without a timeout."""
    attempts: int = 4
    """How often an RPC is tried while the server is UNAVAILABLE; 1 for RPCs that must not be
    repeated."""
    initial_backoff: float = 0.2
    max_backoff: float = 5.0
    max_reply_bytes: int = 4 * 1024 * 1024
    keepalive: Keepalive = field(default_factory=Keepalive)

    def to_options(self, server_name: str) -> ChannelOptions:
        """The options of a channel."""
        options: ChannelOptions = (
            ("grpc.service_config", json.dumps(self._build_service_config())),
            ("grpc.max_receive_message_length", self.max_reply_bytes),
            ("grpc.initial_reconnect_backoff_ms", to_milliseconds(self.initial_backoff)),
            ("grpc.min_reconnect_backoff_ms", to_milliseconds(self.initial_backoff)),
            ("grpc.max_reconnect_backoff_ms", to_milliseconds(self.max_backoff)),
            *self.keepalive.to_options(),
        )
        if server_name:
            options += (("grpc.ssl_target_name_override", server_name),)
        return options

    def _build_service_config(self) -> dict[str, Any]:
        if self.attempts <= 1:
            return {}
        retry = {
            "maxAttempts": min(self.attempts, 5),
            "initialBackoff": f"{self.initial_backoff:g}s",
            "maxBackoff": f"{self.max_backoff:g}s",
            "backoffMultiplier": 2,
            "retryableStatusCodes": ["UNAVAILABLE"],
        }
        return {"methodConfig": [{"name": [{}], "retryPolicy": retry}]}


class GrpcClient:
    """Calls the services of one target, `host:port` or `unix:path`.

        async with GrpcClient("fleet.example.com:443", tls=ClientTls()) as client:
            reply = await client.stub(EchoStub).say(EchoRequest(text="hello"))

    Ask for the stub before each call: it is cached, and is another one when the certificates have
    changed. RPCs in progress then end on the old channel.
    """

    def __init__(
        self,
        target: str,
        *,
        tls: ClientTls | None = None,
        settings: ClientSettings | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._tls = tls
        self._settings = settings or ClientSettings()
        self._monotonic = monotonic
        self._channel: grpc.aio.Channel | None = None
        self._version: tuple[int, ...] = ()
        self._checked_at = 0.0
        self._stubs: dict[Callable[[grpc.aio.Channel], Any], Any] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def stub(self, create: Callable[[grpc.aio.Channel], S]) -> S:
        """The stub of a service, by its class. OSError if the certificates cannot be read."""
        channel = self._get_channel()
        if create not in self._stubs:
            self._stubs[create] = create(channel)
        return cast("S", self._stubs[create])

    async def close(self) -> None:
        """Close all connections; RPCs in progress are cancelled."""
        self._retire_channel(grace=None)
        await asyncio.gather(*self._closing)

    async def __aenter__(self) -> "GrpcClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _get_channel(self) -> grpc.aio.Channel:
        if self._channel is not None and not self._has_new_certificates():
            return self._channel
        if self._channel is not None:
            self._retire_channel(grace=self._settings.deadline)
        self._channel = self._create_channel()
        self._checked_at = self._monotonic()
        return self._channel

    def _has_new_certificates(self) -> bool:
        if self._tls is None or self._monotonic() - self._checked_at < _CHECK_SECONDS:
            return False
        self._checked_at = self._monotonic()
        try:
            return self._tls.version() != self._version
        except OSError as error:
            _log.warning("certificates not read", target=self._target, error=str(error))
            return False

    def _create_channel(self) -> grpc.aio.Channel:
        tls = self._tls
        options = self._settings.to_options(tls.server_name if tls is not None else "")
        interceptors = (_DefaultDeadline(self._settings.deadline),)
        if tls is None:
            return grpc.aio.insecure_channel(self._target, options, interceptors=interceptors)
        self._version = tls.version()
        return grpc.aio.secure_channel(
            self._target, tls.build(), options, interceptors=interceptors
        )

    def _retire_channel(self, grace: float | None) -> None:
        channel, self._channel = self._channel, None
        self._stubs.clear()
        if channel is not None:
            task = asyncio.create_task(channel.close(grace))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class _DefaultDeadline(grpc.aio.UnaryUnaryClientInterceptor):
    """Sets the deadline of RPCs that have none."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def intercept_unary_unary(
        self, continuation: Any, client_call_details: grpc.aio.ClientCallDetails, request: Any
    ) -> Any:
        details: Any = client_call_details
        if details.timeout is None:
            details = details._replace(timeout=self._seconds)
        return await continuation(details, request)
