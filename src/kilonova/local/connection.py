"""uvicorn's connection, which knows its peer, keeps its patience short, and can be taken over."""

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kilonova.local.streaming import SocketWire

HEAD_SECONDS = 32
HEAD_LIMIT = 1 << 20
_KEEP_ALIVE_SECONDS = 15

_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which also tells the application who is at the other end.

    Whoever it is gets only so much time and room for the head of a request, as in Kubernetes:
    uvicorn itself would wait and gather without end.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _awaits_upgrade = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        peer = None if tls is None else tls.getpeercert()
        self.app_state = {**self.app_state, "peer": peer, "take_over": self.take_over}
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._awaits_upgrade:
            # Nobody may speak the new protocol before it is agreed on.
            self.transport.close()
            return
        if self._head_timer is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT:
                self._end_head()
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        if self._head_timer is None:
            self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """The parser stops here: either the connection is taken over, or it ends."""
        self._awaits_upgrade = True
        self.cycle.keep_alive = False

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
        lines = [b"HTTP/1.1 101 Switching Protocols"]
        lines += [f"{name}: {value}".encode("latin-1") for name, value in headers.items()]
        transport.write(b"\r\n".join([*lines, b"", b""]))
        return SocketWire(reader, asyncio.StreamWriter(transport, protocol, reader, self.loop))

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        self.transport.close()


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
