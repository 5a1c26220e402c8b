"""PromQL: the values of an expression now."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    import aiohttp

_TIMEOUT_SECONDS = 5.0


class QueryFailed(Exception):
    """Prometheus did not answer, or rejected the expression; the text says why."""


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


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
                body = await reply.read()
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
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise QueryFailed(f"HTTP {status}, not an answer of Prometheus") from None
    if answer.status != "success":
        raise QueryFailed(answer.error or f"HTTP {status}")
    result = cast("list[Any]", msgspec.json.decode(answer.data.result))
    match answer.data.result_type:
        case "scalar":
            points = [result]
        case "vector":
            points = [cast("list[Any]", each["value"]) for each in result]
        case other:
            raise QueryFailed(f"the expression is a {other or 'nothing'}, not a vector or scalar")
    values = [_parse_number(point[1]) for point in points]
    return [value for value in values if math.isfinite(value)]


def _parse_number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return math.nan
