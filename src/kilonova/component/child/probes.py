"""Readiness probes of child processes."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

ReadinessProbe = Callable[[], Awaitable[bool]]
"""Whether the program is ready now. It may raise OSError."""

_TIMEOUT_SECONDS = 5.0


def tcp_ready(host: str, port: int) -> ReadinessProbe:
    """Ready when a port accepts connections."""

    async def probe() -> bool:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
        return True

    return probe


def http_ready(url: str) -> ReadinessProbe:
    """Ready when an `http://` URL answers with a status of 200 to 399."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n"

    async def probe() -> bool:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(request.encode())
                status = await reader.readline()
            finally:
                writer.close()
        fields = status.split()
        return len(fields) > 1 and fields[1].isdigit() and 200 <= int(fields[1]) < 400

    return probe
