"""uvicorn's connection, with an end to its patience and its memory.

uvicorn would wait without end for the head of a request, and gather without end what a client adds
to it; the longer it gets, the longer each piece takes, until nothing else has its turn. Anybody who
reaches the port could do that: tokens are looked at later.
"""

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_SECONDS = 15
HEAD_LIMIT = 1 << 20
AWAITED_HEADS = 1000
"""Connections of a server that have sent no whole head, at most: where there are more, the one
that has had the most time is closed."""

_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)


class BoundedConnection(HttpToolsProtocol):
    """Gives whoever is at the other end only so much time for the head of a request, and so much
    room for what is not its body: head, trailers, sizes of chunks."""

    app_state: dict[str, Any]
    _head_timer: asyncio.TimerHandle | None = None
    _beside_body = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)
        self.release()

    def release(self) -> None:
        """Nothing further comes by this connection.

        Its buffers must not wait for the garbage collector, which long-lived ones seldom meet:
        a timer that is left alone, and what leads from a connection back to itself.
        """
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self.app_state = {}
        self.scope = self.cycle = self.parser = None  # pyright: ignore[reportAttributeAccessIssue]

    def data_received(self, data: bytes) -> None:
        self._beside_body += len(data)
        if self._beside_body > HEAD_LIMIT:
            self._end_head()
            if not self.cycle or self.cycle.response_complete:
                self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()
            return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._beside_body = 0
        if self._head_timer is None:
            self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._beside_body -= len(body)
        super().on_body(body)

    def _unsupported_upgrade_warning(self) -> None:
        """Another protocol is not spoken: the request is answered, and the connection ends, as the
        parser has."""
        self.cycle.keep_alive = False

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up)
        awaited = _awaited.setdefault(self.server_state, {})
        awaited[self] = None
        if len(awaited) > AWAITED_HEADS:
            next(iter(awaited))._give_up()

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
            _awaited[self.server_state].pop(self, None)

    def _give_up(self) -> None:
        self._end_head()
        # Not closed in order: that would wait for the client once more.
        self.transport.abort()


_awaited: WeakKeyDictionary[ServerState, dict[BoundedConnection, None]] = WeakKeyDictionary()
"""The connections of each server whose head is awaited, longest first."""
