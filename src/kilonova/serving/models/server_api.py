"""What the loader asks a server: the repository and statistics extensions of the v2 protocol."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from kilonova.api.serving import ServerPorts

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

Index = dict[str, str]
"""The state of each model of the repository, of all its versions together: READY, LOADING,
UNLOADING, UNAVAILABLE, UNKNOWN, or empty if it was never loaded."""

_STATES = ("READY", "LOADING", "UNLOADING", "UNAVAILABLE", "UNKNOWN", "")
_MAX_MESSAGE = 500
MAX_REPLY_BYTES = 64 * 1024 * 1024


@dataclass(eq=False)
class ServerFailed(Exception):
    """A server did not do what it was asked for, and reports why; or it did not answer."""

    reason: str
    is_gone: bool = False
    """Whether nothing listens: the server ended, and has no models."""

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class ModelCounters:
    """Counters of a model since the server started, of all its versions together."""

    requests: int = 0
    busy_ns: int = 0
    """The time that requests spent in the server, of all together."""


class ServerApi(Protocol):
    """A server of models. Methods raise `ServerFailed`; callers limit their time."""

    async def read_index(self) -> Index: ...

    async def read_counters(self) -> dict[str, ModelCounters]: ...

    async def load(self, model: str) -> None:
        """Load a model; returns when it is loaded."""
        ...

    async def unload(self, model: str) -> None:
        """Unload a model; it may take some more time."""
        ...

    async def close(self) -> None: ...


def connect_server(address: str, ports: ServerPorts) -> ServerApi:
    """The API of a server, over HTTP if it has that. Nothing is sent yet."""
    if ports.http:
        return HttpServerApi(f"http://{_bracket(address)}:{ports.http}")
    from kilonova.serving.models.grpc_server_api import GrpcServerApi  # loads gRPC

    return GrpcServerApi(f"{_bracket(address)}:{ports.grpc}")


def merge_state(index: Index, name: str, state: str) -> None:
    """Add the state of a version: a model is ready if one version is."""
    known = state if state in _STATES else "UNKNOWN"
    if name not in index or _STATES.index(known) < _STATES.index(index[name]):
        index[name] = known


class _IndexEntry(msgspec.Struct, frozen=True):
    name: str
    state: str = ""


_Counter = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Duration(msgspec.Struct, frozen=True):
    count: _Counter = 0
    ns: _Counter = 0


class _InferenceStats(msgspec.Struct, frozen=True):
    success: _Duration = _Duration()
    fail: _Duration = _Duration()


class _ModelStats(msgspec.Struct, frozen=True):
    name: str
    inference_stats: _InferenceStats = _InferenceStats()


class _Statistics(msgspec.Struct, frozen=True):
    model_stats: tuple[_ModelStats, ...] = ()


class _Error(msgspec.Struct, frozen=True):
    error: str = ""


class HttpServerApi:
    """A `ServerApi` over HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def read_index(self) -> Index:
        body = await self._request("POST", "/v2/repository/index", b"{}")
        index: Index = {}
        for each in _decode(body, tuple[_IndexEntry, ...]):
            merge_state(index, each.name, each.state)
        return index

    async def read_counters(self) -> dict[str, ModelCounters]:
        body = await self._request("GET", "/v2/models/stats")
        counters: dict[str, ModelCounters] = {}
        for each in _decode(body, _Statistics).model_stats:
            stats, former = each.inference_stats, counters.get(each.name, ModelCounters())
            counters[each.name] = ModelCounters(
                former.requests + stats.success.count + stats.fail.count,
                former.busy_ns + stats.success.ns + stats.fail.ns,
            )
        return counters

    async def load(self, model: str) -> None:
        await self._request("POST", f"/v2/repository/models/{_quote(model)}/load", b"{}")

    async def unload(self, model: str) -> None:
        await self._request("POST", f"/v2/repository/models/{_quote(model)}/unload", b"{}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        import aiohttp
        from yarl import URL

        if self._session is None:
            # Loading takes minutes: callers limit the time.
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None), cookie_jar=aiohttp.DummyCookieJar()
            )
        url = URL(self._url + path, encoded=True)
        try:
            # A redirect would let a server choose what the loader asks.
            async with self._session.request(
                method, url, data=body, allow_redirects=False
            ) as reply:
                answer = await _read_body(reply.content)
                status = reply.status
        except aiohttp.ClientConnectorError as error:
            is_gone = isinstance(error.os_error, ConnectionRefusedError)
            raise ServerFailed(error.os_error.strerror or str(error), is_gone) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ServerFailed(str(error) or type(error).__name__) from error
        if status >= 300:
            raise ServerFailed(_read_error(answer) or f"it answers with {status}")
        return answer


async def _read_body(content: "aiohttp.StreamReader") -> bytes:
    body = bytearray()
    async for piece in content.iter_any():
        body += piece
        if len(body) > MAX_REPLY_BYTES:
            raise ServerFailed(f"its answer is larger than {MAX_REPLY_BYTES} bytes")
    return bytes(body)


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServerFailed(f"its answer is not of the v2 protocol: {error}") from None


def _read_error(body: bytes) -> str:
    try:
        return shorten(msgspec.json.decode(body, type=_Error).error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def shorten(message: str) -> str:
    """The words of a server, so that they fit into an event and a status."""
    return message[:_MAX_MESSAGE]


def _quote(model: str) -> str:
    return quote(model, safe="")


def _bracket(address: str) -> str:
    return f"[{address}]" if ":" in address else address
