"""What the server has to say, over a WebSocket: a log in pieces, a watch in events.

Clients that cannot read an answer as it comes, such as pages in a browser, ask for it so.
"""

import asyncio
import base64
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from kilonova.kube.transport import Request, StreamReply
from kilonova.local.streaming.handshakes import agree, is_websocket_request
from kilonova.local.streaming.session import Upgrade, WebSocketSession
from kilonova.local.streaming.websocket import WebSocket

__all__ = ["is_websocket_request", "log_messages", "watch_messages"]

_LOG_PROTOCOLS = ("", "binary.k8s.io", "base64.binary.k8s.io")


def log_messages(request: Request, reply: StreamReply) -> Upgrade:
    """A log, after an empty message that says that it begins."""
    agreed = agree(request, _LOG_PROTOCOLS)
    as_text = agreed.protocol.startswith("base64.")

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

    upgrade = agreed.upgrade(_session(send, reply))
    upgrade.paced = reply.paced
    return upgrade


def watch_messages(request: Request, reply: StreamReply) -> Upgrade:
    """A watch, one event in each message of text. Any subprotocol will do, as in Kubernetes.

    An event that comes in pieces goes out in frames of one message, and never exists as a whole.
    """
    offered = request.headers.get("sec-websocket-protocol", "")
    agreed = agree(request, (offered.partition(",")[0].strip(),))

    async def send(websocket: WebSocket) -> None:
        decoder = getincrementaldecoder("utf-8")()  # a piece may end within a character
        async for piece, last in _pieces(reply.chunks):
            await websocket.send_text(decoder.decode(piece, last), last=last)

    upgrade = agreed.upgrade(_session(send, reply))
    upgrade.paced = reply.paced
    return upgrade


def _session(send: Callable[[WebSocket], Awaitable[None]], reply: StreamReply) -> WebSocketSession:
    async def talk(websocket: WebSocket) -> None:
        sending = asyncio.ensure_future(send(websocket))
        leaving = asyncio.ensure_future(_until_closed(websocket))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            for task in (sending, leaving):
                if task.done():
                    task.result()
            if sending.done():
                await websocket.close()
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def end() -> None:
        close: Any = getattr(reply.chunks, "aclose", None)
        if close is not None:
            await close()

    return WebSocketSession(talk, end)


async def _until_closed(websocket: WebSocket) -> None:
    """What the client says meanwhile is of no interest."""
    async for _ in websocket.pieces():
        pass


async def _pieces(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bool]]:
    """Lines, or pieces of them as they come, and whether a line ends there."""
    async for chunk in chunks:
        *ended, begun = chunk.split(b"\n")
        del chunk
        for line in ended:
            yield line + b"\n", True
        if begun:
            yield begun, False
