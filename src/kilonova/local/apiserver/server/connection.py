"""A connection that knows its peer's certificate, and can be hijacked."""

import asyncio
import socket
import ssl

from kilonova.kube.serving.bounded_connection import BoundedConnection
from kilonova.local.apiserver.auth.client_certificates import PeerCertificate
from kilonova.local.apiserver.streaming import SocketStream

_KEEP_ALIVE_SECONDS = 15


class ApiConnection(BoundedConnection):
    """A connection that the application may hijack."""

    peer: PeerCertificate | None = None
    """The client's certificate, if it sent one."""
    _awaits_upgrade = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        self.peer = None if tls is None else tls.getpeercert()

    def data_received(self, data: bytes) -> None:
        if self._awaits_upgrade:
            # The client must not use the new protocol before it is agreed on.
            self.transport.close()
            return
        super().data_received(data)

    def _unsupported_upgrade_warning(self) -> None:
        """The parser stops here: the connection is either hijacked or closed."""
        self._awaits_upgrade = True
        super()._unsupported_upgrade_warning()

    def hijack(self, headers: dict[str, str]) -> SocketStream:
        """Switch protocols: from now on the connection belongs to the caller. Raises OSError."""
        transport = self.transport
        if transport.is_closing():
            raise ConnectionResetError("the client sent data before the protocol switch")
        self.connections.discard(self)
        self.cycle.response_started = self.cycle.response_complete = True
        _enable_keepalive(transport)
        reader = asyncio.StreamReader(loop=self.loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self.loop)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        self.release()
        lines = [b"HTTP/1.1 101 Switching Protocols"]
        lines += [f"{name}: {value}".encode("latin-1") for name, value in headers.items()]
        transport.write(b"\r\n".join([*lines, b"", b""]))
        return SocketStream(reader, asyncio.StreamWriter(transport, protocol, reader, self.loop))


def _enable_keepalive(transport: asyncio.Transport) -> None:
    """Let the system detect a vanished peer, as Go's servers do."""
    connected: socket.socket | None = transport.get_extra_info("socket")
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        option: int | None = getattr(socket, name, None)  # not available on every system
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, _KEEP_ALIVE_SECONDS)
