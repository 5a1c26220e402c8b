"""Server output over a WebSocket: a log in pieces, a watch in events.

For clients that cannot read a streamed response, such as pages in a browser.
"""

import asyncio
import base64
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from kilonova.kube.client.transport import Request, StreamReply
from kilonova.local.apiserver.streaming.protocol_negotiation import (
    is_websocket_request,
    negotiate_protocol,
)
from kilonova.local.apiserver.streaming.session import Upgrade, WebSocketSession
from kilonova.local.apiserver.streaming.websocket.connection import WebSocket

__all__ = ["is_websocket_request", "log_over_websocket", "watch_over_websocket"]

_LOG_PROTOCOLS = ("", "binary.k8s.io", "base64.binary.k8s.io")


def log_over_websocket(request: Request, reply: StreamReply) -> Upgrade:
    """A log, after an empty message that marks its start."""
    negotiated = negotiate_protocol(request, _LOG_PROTOCOLS)
    as_text = negotiated.protocol.startswith("base64.")

    async def send(websocket: WebSocket) -> None:
        if as_text:
            await websocket.send_text("")
        else:
            await websocket.send(b"")
        async for chunk in reply.chunks:
            if as_text:
                await websocket.send_text(base64.b64encode(chunk).decode())
            else:
                await websocket.send(chunk)

    upgrade = negotiated.upgrade(_output_session(send, reply))
    upgrade.waits_for_client = reply.waits_for_client
    return upgrade


def watch_over_websocket(request: Request, reply: StreamReply) -> Upgrade:
    """A watch, one event per text message. Any subprotocol is accepted, as in Kubernetes.

    An event that arrives in pieces is sent in frames of one message, and is never buffered whole.
    """
    offered = request.headers.get("sec-websocket-protocol", "")
    negotiated = negotiate_protocol(request, (offered.partition(",")[0].strip(),))

    async def send(websocket: WebSocket) -> None:
        decoder = getincrementaldecoder("utf-8")()  # a piece may end within a character
        async for piece, last in _split_lines(reply.chunks):
            await websocket.send_text(decoder.decode(piece, last), last=last)

    upgrade = negotiated.upgrade(_output_session(send, reply))
    upgrade.waits_for_client = reply.waits_for_client
    return upgrade


def _output_session(
    send: Callable[[WebSocket], Awaitable[None]], reply: StreamReply
) -> WebSocketSession:
    async def talk(websocket: WebSocket) -> None:
        sending = asyncio.ensure_future(send(websocket))
        closing = asyncio.ensure_future(_wait_closed(websocket))
        try:
            await asyncio.wait((sending, closing), return_when=asyncio.FIRST_COMPLETED)
            for task in (sending, closing):
                if task.done():
                    task.result()
            if sending.done():
                await websocket.close()
        finally:
            sending.cancel()
            closing.cancel()
            await asyncio.gather(sending, closing, return_exceptions=True)

    async def end() -> None:
        close: Any = getattr(reply.chunks, "aclose", None)
        if close is not None:
            await close()

    return WebSocketSession(talk, end)


async def _wait_closed(websocket: WebSocket) -> None:
    """Wait until the client closes; its messages are ignored."""
    async for _ in websocket.pieces():
        pass


async def _split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bool]]:
    """Lines, or pieces of them as they arrive, and whether a line ends there."""
    async for chunk in chunks:
        *complete, incomplete = chunk.split(b"\n")
        del chunk
        for line in complete:
            yield line + b"\n", True
        if incomplete:
            yield incomplete, False
