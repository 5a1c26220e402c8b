"""Reading a request from ASGI: its headers, its query, its body within limits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from kilonova.kube.client.transport import Query

AsgiMessage: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = AsgiMessage
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
AsgiApplication: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """Limits of a request body: its size, the time for all of it, and the longest pause in it."""

    size: int
    seconds: float
    idle_seconds: float
    drain_factor: int = 1
    """Many clients read the response only after they have sent the body: one that is up to this
    many times too large is read to its end."""


class BodyTooLarge(Exception):
    """The body exceeds its limit; the rest of it is not read."""


class ClientDisconnected(Exception):
    """The connection ended in the middle of a body: the request is discarded."""


async def read_body(headers: Mapping[str, str], receive: Receive, limits: BodyLimits) -> bytes:
    """The whole body. `BodyTooLarge`, `ClientDisconnected`, or `TimeoutError`."""
    if "content-length" not in headers and "transfer-encoding" not in headers:
        return b""
    parts: list[bytes] = []
    size = 0
    loop = asyncio.get_running_loop()
    end = loop.time() + limits.seconds
    async with asyncio.timeout(limits.idle_seconds) as timeout:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            part: bytes = message.get("body", b"")
            size += len(part)
            is_last = not message.get("more_body")
            if size <= limits.size:
                parts.append(part)
            elif is_last or size > limits.drain_factor * limits.size:
                raise BodyTooLarge
            if is_last:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            timeout.reschedule(min(end, loop.time() + limits.idle_seconds))


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected; what it sends until then is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass


def decode_query(scope: Scope) -> Query:
    """The parameters of the query string, in order."""
    raw: bytes = scope["query_string"]
    return parse_qsl(raw.decode("latin-1"), keep_blank_values=True) if raw else []


def decode_headers(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; values of a repeated header are joined."""
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    if len(found) < len(headers):
        several: dict[str, list[str]] = {}
        for name, value in headers:
            several.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        found = {name: ", ".join(values) for name, values in several.items()}
    return found
