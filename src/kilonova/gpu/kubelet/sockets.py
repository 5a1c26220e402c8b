"""Servers on unix sockets in folders that others empty.

The kubelet removes the sockets of device plugins when it starts, and an administrator may remove
any. A server on a socket that is gone gets no calls: `SocketServer` serves again when its socket is
missing, or is another one. Polling once in a second costs a system call; inotify would miss a
folder that is itself replaced.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from kilonova.kube.grpc import GrpcServer, GrpcService, ServerLimits
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

POLL_SECONDS = 1.0
_NEVER_SECONDS = (2**31 - 1) / 1000
"""The greatest time that gRPC knows, which it takes for no limit."""
_GRACE_SECONDS = 2.0

FileIdentity: TypeAlias = tuple[int, int, int] | None
"""None for a file that does not exist."""


def identify_file(path: Path) -> FileIdentity:
    """Equal as long as a file was not recreated: its device, inode and time of change."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def plugin_limits(max_unary_seconds: float) -> ServerLimits:
    """Limits of a server whose client is the kubelet, which does not connect again."""
    return ServerLimits(max_unary_seconds=max_unary_seconds, max_connection_age=_NEVER_SECONDS)


class SocketServer:
    """Serves on a socket until cancelled, also after the socket was removed.

    `on_serving` is called each time that it listens. A runnable.
    """

    def __init__(
        self,
        name: str,
        socket: Path,
        services: Callable[[], Sequence[GrpcService]],
        *,
        max_unary_seconds: float = 60.0,
        on_serving: Callable[[], Awaitable[None]] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self._socket = socket
        self._services = services
        self._limits = plugin_limits(max_unary_seconds)
        self._on_serving = on_serving
        self._sleep = sleep

    async def run(self) -> None:
        while True:
            try:
                await self._serve_until_removed()
            except OSError as error:
                _log.error(
                    "cannot serve on socket: trying again",
                    server=self.name,
                    socket=str(self._socket),
                    error=str(error),
                )
                await self._sleep(POLL_SECONDS)
            else:
                _log.info("socket removed: serving again", server=self.name)

    async def _serve_until_removed(self) -> None:
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        # What a process that was killed has left.
        self._socket.unlink(missing_ok=True)
        server = GrpcServer(
            self.name,
            self._services(),
            f"unix:{self._socket}",
            limits=self._limits,
            grace=_GRACE_SECONDS,
        )
        server.bind()
        identity = identify_file(self._socket)
        serving = asyncio.create_task(server.run())
        try:
            if self._on_serving is not None:
                await asyncio.sleep(0)
                await self._on_serving()
            while identity is not None and identify_file(self._socket) == identity:
                await self._sleep(POLL_SECONDS)
                if serving.done():
                    break
        finally:
            server.stop()
            await serving
