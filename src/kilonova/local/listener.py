"""An ASGI application on a socket of ours, inside an event loop that is not uvicorn's own."""

import asyncio
import errno
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from kilonova.kube.serving import HttpServer, listening, why_not_had
from kilonova.local.connection import Connection

_BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The server's certificate and key, and whose client certificates are believed."""

    certificate: Path
    key: Path
    client_authority: Path


class PortInUse(Exception):
    """It is not to be had: mostly, somebody else listens there."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket of ours; port 0 takes any that is free.

    It listens at once: of two processes that only bind, both would succeed.
    """
    try:
        bound = listening(host, port, _BACKLOG)
    except OSError as error:
        raise PortInUse(
            f"port {port} of {host} cannot be used ({why_not_had(error)}): {_remedy(error)}"
        ) from error
    bound.setblocking(False)
    return bound


def _remedy(error: OSError) -> str:
    other = "choose another with --port N (0 takes a free one)"
    match error.errno:
        case errno.EADDRINUSE:
            return f"stop what listens there, or {other}"
        case errno.EACCES:
            return other
        case _:
            return "name an address of this machine with --host HOST"


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
            backlog=_BACKLOG,
            timeout_graceful_shutdown=1,
            ssl_certfile=tls.certificate,
            ssl_keyfile=str(tls.key),
            ssl_ca_certs=str(tls.client_authority),
            ssl_cert_reqs=ssl.CERT_OPTIONAL,
        )
        self._server = HttpServer(config)
        self._address = address
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when connections are accepted."""
        self._task = asyncio.create_task(self._server.serve([self._address]), name="listener")
        listening = asyncio.create_task(self._server.listening.wait())
        try:
            await asyncio.wait((listening, self._task), return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        if self._task is not None:
            self._server.should_exit = True
            await self._task
