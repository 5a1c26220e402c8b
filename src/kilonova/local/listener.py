"""An ASGI application on a socket of ours, inside an event loop that is not uvicorn's own."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from kilonova.local.app import Connection

_STARTING = 0.002


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The server's certificate and key, and whose client certificates are believed."""

    certificate: Path
    key: Path
    client_authority: Path


class PortInUse(Exception):
    """Somebody else listens there."""


def bind(host: str, port: int) -> socket.socket:
    """A listening address of ours; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise PortInUse(
            f"port {port} of {host} cannot be used ({error.strerror}): stop what listens there, "
            "or choose another with --port N (0 takes a free one)"
        ) from error
    bound.setblocking(False)
    return bound


class Listener:
    """Serves from `start` until `stop`; connections that remain then are closed."""

    def __init__(self, app: Any, address: socket.socket, tls: TlsFiles) -> None:
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=3600,
            timeout_graceful_shutdown=1,
            ssl_certfile=tls.certificate,
            ssl_keyfile=str(tls.key),
            ssl_ca_certs=str(tls.client_authority),
            ssl_cert_reqs=ssl.CERT_OPTIONAL,
        )
        self._server = _Server(config)
        self._address = address
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when connections are accepted."""
        self._task = asyncio.create_task(self._server.serve([self._address]), name="listener")
        while not self._server.started and not self._task.done():
            await asyncio.sleep(_STARTING)
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        if self._task is not None:
            self._server.should_exit = True
            await self._task


class _Server(uvicorn.Server):
    """Signals are the business of the process, not of one server in it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
