"""PromQL: the values of an expression now."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import aiohttp

_TIMEOUT_SECONDS = 5.0
_MAX_BYTES = 16 << 20


class QueryFailed(Exception):
    """Prometheus did not answer, or rejected the expression; the text states why."""


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


_Point = tuple[float, str]
"""Time and value."""


class _Series(msgspec.Struct):
    value: _Point


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""


class PrometheusClient:
    """Evaluates PromQL expressions. Opened when the first one is evaluated."""

    def __init__(self, timeout: float = _TIMEOUT_SECONDS) -> None:
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def evaluate(self, url: str, expression: str) -> list[float]:
        """The values, without those that are not finite numbers; none if there is no data."""
        # Most services have no expression: then the HTTP client is not loaded.
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=True,
            )
        try:
            async with self._session.post(
                f"{url.rstrip('/')}/api/v1/query", data={"query": expression}
            ) as reply:
                body = await _read_body(reply.content)
                status = reply.status
        except TimeoutError:
            raise QueryFailed(f"no answer within {self._timeout:g}s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise QueryFailed(str(error) or type(error).__name__) from error
        return parse_answer(status, body)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
            await asyncio.sleep(0)


def parse_answer(status: int, body: bytes) -> list[float]:
    """The finite values of an answer of the query API; raises `QueryFailed`."""
    try:
        answer = msgspec.json.decode(body, type=_Answer)
        if answer.status != "success":
            raise QueryFailed(answer.error or f"HTTP {status}")
        points = _decode_points(answer.data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise QueryFailed(f"HTTP {status}, not an answer of Prometheus") from None
    values = [_parse_number(text) for _, text in points]
    return [value for value in values if math.isfinite(value)]


def _decode_points(data: _Data) -> list[_Point]:
    match data.result_type:
        case "scalar":
            return [msgspec.json.decode(data.result, type=_Point)]
        case "vector":
            return [each.value for each in msgspec.json.decode(data.result, type=list[_Series])]
        case other:
            raise QueryFailed(f"the expression is a {other or 'nothing'}, not a vector or scalar")


async def _read_body(content: aiohttp.StreamReader) -> bytes:
    body = bytearray()
    async for piece in content.iter_any():
        body += piece
        if len(body) > _MAX_BYTES:
            raise QueryFailed(f"the answer is larger than {_MAX_BYTES} bytes")
    return bytes(body)


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
