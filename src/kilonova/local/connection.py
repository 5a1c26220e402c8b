"""A connection that knows its peer, and can be taken over."""

import asyncio
import socket

from kilonova.kube.connection import BoundedConnection
from kilonova.local.responses import ClientConnection
from kilonova.local.streaming import SocketWire

_KEEP_ALIVE_SECONDS = 15
_WRITE_BUFFER = 16 << 10
"""Bytes above which a connection counts as blocked; the socket below it has a buffer too."""


class Connection(BoundedConnection, ClientConnection):
    """A connection which also tells the application who is at the other end, and whether they read
    what they are sent."""

    _awaits_upgrade = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        peer = None if tls is None else tls.getpeercert()
        transport.set_write_buffer_limits(_WRITE_BUFFER)
        self.app_state = {
            **self.app_state,
            "peer": peer,
            "take_over": self.take_over,
            "connection": self,
        }

    def is_blocked(self) -> bool:
        return self.flow.write_paused

    def buffered(self) -> int:
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._awaits_upgrade:
            # Nobody may speak the new protocol before it is agreed on.
            self.transport.close()
            return
        super().data_received(data)

    def _unsupported_upgrade_warning(self) -> None:
        """The parser stops here: either the connection is taken over, or it ends."""
        self._awaits_upgrade = True
        super()._unsupported_upgrade_warning()

    def take_over(self, headers: dict[str, str]) -> SocketWire:
        """Switch protocols: from now on the connection is the caller's. Raises OSError."""
        transport = self.transport
        if transport.is_closing():
            raise ConnectionResetError("the client did not wait")
        self.connections.discard(self)
        self.cycle.response_started = self.cycle.response_complete = True
        _keep_alive(transport)
        reader = asyncio.StreamReader(loop=self.loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self.loop)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        self.release()
        lines = [b"HTTP/1.1 101 Switching Protocols"]
        lines += [f"{name}: {value}".encode("latin-1") for name, value in headers.items()]
        transport.write(b"\r\n".join([*lines, b"", b""]))
        return SocketWire(reader, asyncio.StreamWriter(transport, protocol, reader, self.loop))


def _keep_alive(transport: asyncio.Transport) -> None:
    """Let the system find out whether the peer is still there, as Go's servers do."""
    connected: socket.socket | None = transport.get_extra_info("socket")
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        option: int | None = getattr(socket, name, None)  # not on every system
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, _KEEP_ALIVE_SECONDS)
