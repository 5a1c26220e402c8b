"""uvicorn's connection, with limits on the time and size of a request head, and on what is buffered
of a response.

uvicorn waits without limit for the head of a request, and buffers without limit what a client adds
to it; the longer the head, the longer each piece takes, until the event loop is blocked. Any client
that reaches the port could do that, as authentication happens later.
"""

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_SECONDS = 15
HEAD_LIMIT = 1 << 20
MAX_PENDING_HEADS = 1000
"""Maximum number of connections of a server that have sent no complete head: beyond it, the oldest
is closed."""

_WRITE_BUFFER = 16 << 10
"""Buffered bytes above which a connection counts as blocked; the socket below has a buffer too."""

_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)


class BoundedConnection(HttpToolsProtocol):
    """Limits the time for the head of a request, and the size of everything that is not its body:
    head, trailers, chunk sizes.

    The application finds it in `scope["state"]["connection"]`: a `ClientConnection`, which says
    whether the client reads the response.
    """

    app_state: dict[str, Any]
    _head_timer: asyncio.TimerHandle | None = None
    _non_body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        transport.set_write_buffer_limits(_WRITE_BUFFER)
        self.app_state = {**self.app_state, "connection": self}
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)
        self.release()

    def release(self) -> None:
        """Free the buffers of a closed connection.

        They must not wait for the garbage collector, which rarely visits long-lived objects: cancel
        the pending timer, and break the reference cycles of the connection.
        """
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self.app_state = {}
        self.scope = self.cycle = self.parser = None  # pyright: ignore[reportAttributeAccessIssue]

    def is_blocked(self) -> bool:
        return self.flow.write_paused

    def buffered(self) -> int:
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._non_body_bytes += len(data)
        if self._non_body_bytes > HEAD_LIMIT:
            self._stop_head_timer()
            if not self.cycle or self.cycle.response_complete:
                self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()
            return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._non_body_bytes = 0
        if self._head_timer is None:
            self._start_head_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_head_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._non_body_bytes -= len(body)
        super().on_body(body)

    def _unsupported_upgrade_warning(self) -> None:
        """No upgrades: the request is answered and the connection closed, as the parser has
        ended."""
        self.cycle.keep_alive = False

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._abort_slow_head)
        pending = _pending_heads.setdefault(self.server_state, {})
        pending[self] = None
        if len(pending) > MAX_PENDING_HEADS:
            next(iter(pending))._abort_slow_head()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
            _pending_heads[self.server_state].pop(self, None)

    def _abort_slow_head(self) -> None:
        self._stop_head_timer()
        # Not closed gracefully: that would wait for the client once more.
        self.transport.abort()


_pending_heads: WeakKeyDictionary[ServerState, dict[BoundedConnection, None]] = WeakKeyDictionary()
"""The connections of each server that have not sent a complete head, oldest first."""
