"""`pods/proxy`, `services/proxy` and `nodes/proxy`: HTTP requests passed on to pods."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlencode, urlsplit

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.errors import ApiError, method_not_allowed
from kilonova.local.kubelets import Kubelets
from kilonova.local.streaming.exchange import Answered, Asked, Exchange, Headers
from kilonova.local.streaming.places import Find, Place, pod_place, service_place

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")

_HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
_OURS = {"authorization", "host", "content-length", "expect", "x-forwarded-for"}
"""Beside the above, what is meant for this server or is written anew."""


@dataclass(slots=True)
class ProxyRequest(Request):
    """A request whose body has not been read, and which knows where it came from."""

    chunks: AsyncIterator[bytes] | None = None
    raw_query: str = ""
    client: str = ""


@dataclass(slots=True)
class Proxied(StreamReply):
    """A pod's answer; a name may repeat among its headers."""

    pairs: Headers = field(default_factory=list[tuple[str, str]])


class Proxies:
    """Passes requests on to pods. `find` and `slices` read what is stored."""

    def __init__(
        self,
        kubelets: Kubelets,
        find_pod: Find,
        find_service: Find,
        slices: Callable[[str, str], list[JsonObject]],
        random: Random,
    ) -> None:
        self._kubelets = kubelets
        self._find_pod = find_pod
        self._find_service = find_service
        self._slices = slices
        self._random = random

    async def pod(self, namespace: str, reference: str, request: Request) -> Reply | StreamReply:
        return await self._pass_on(request, pod_place(namespace, reference, self._find_pod))

    async def service(
        self, namespace: str, reference: str, request: Request
    ) -> Reply | StreamReply:
        place = service_place(
            namespace, reference, self._find_service, self._find_pod, self._slices, self._random
        )
        return await self._pass_on(request, place)

    async def _pass_on(self, request: Request, place: Place) -> Reply | StreamReply:
        if request.method not in METHODS:
            raise method_not_allowed()
        prefix, path = _split(request.path)
        if not path and request.method in ("GET", "HEAD"):
            return Reply(301, b"", {"location": f"{prefix}/{_query(request)}"})
        kubelet = self._kubelets.find(place.pod["spec"].get("nodeName", ""))
        asked = Asked(
            request.method,
            (path or "/") + _query(request),
            request_headers(request, f"{prefix}{path}"),
            _body(request),
        )
        try:
            exchange = Exchange(*await kubelet.dial(place.pod, place.port))
            if place.tls:
                await exchange.start_tls()
            answered = await exchange.perform(asked)
        except OSError as error:
            raise ApiError(
                503, "ServiceUnavailable", f"error trying to reach service: {error}"
            ) from error
        return Proxied(
            answered.status,
            answered.chunks,
            pairs=answer_headers(answered, prefix, request.headers.get("host", "")),
        )


def request_headers(request: Request, path: str) -> Headers:
    """The client's headers without those between it and us; with where it came from."""
    dropped = _HOP_BY_HOP | _OURS | _named_by_connection(request.headers.get("connection", ""))
    host = request.headers.get("host", "localhost")
    headers: Headers = [("Host", host)]
    headers += [
        (name, value)
        for name, value in request.headers.items()
        if name not in dropped and not name.startswith("impersonate-")
    ]
    length = request.headers.get("content-length")
    if length is not None:
        headers.append(("Content-Length", length))
    elif "transfer-encoding" in request.headers:
        headers.append(("Transfer-Encoding", "chunked"))
    elif request.body:
        headers.append(("Content-Length", str(len(request.body))))
    headers += [
        ("X-Forwarded-Uri", path),
        ("X-Forwarded-Host", host),
        ("X-Forwarded-Proto", "https"),
    ]
    came_by = [request.headers.get("x-forwarded-for", "")]
    if isinstance(request, ProxyRequest):
        came_by.append(request.client)
    if came_from := ", ".join(filter(None, came_by)):
        headers.append(("X-Forwarded-For", came_from))
    return headers


def answer_headers(answered: Answered, prefix: str, host: str) -> Headers:
    """The pod's headers for the client; an address on the pod becomes one behind the proxy."""
    connection = ",".join(value for name, value in answered.headers if name == "connection")
    dropped = _HOP_BY_HOP | _named_by_connection(connection)
    return [
        (name, _moved(value, prefix, host) if name == "location" else value)
        for name, value in answered.headers
        if name not in dropped
    ]


def _moved(location: str, prefix: str, host: str) -> str:
    try:
        parts = urlsplit(location)
    except ValueError:
        return location
    if (parts.netloc and parts.netloc != host) or not parts.path.startswith("/"):
        return location
    if parts.path.startswith(prefix):
        return location
    return parts._replace(scheme="https", netloc=host, path=prefix + parts.path).geturl()


def _named_by_connection(value: str) -> set[str]:
    return {word.strip().lower() for word in value.split(",")}


def is_proxied(path: str) -> bool:
    """Whether a raw path leads to a pod, and not to an object."""
    parts = path.strip("/").split("/")
    depth = _depth(parts)
    return parts[0] == "api" and len(parts) >= depth and parts[depth - 1] == "proxy"


def _depth(parts: list[str]) -> int:
    """How many parts of a path there are up to `proxy`."""
    return 7 if parts[2:3] == ["namespaces"] else 5


def _split(path: str) -> tuple[str, str]:
    """A raw path up to and with `/proxy`, and what follows."""
    parts = path.lstrip("/").split("/")
    depth = _depth(parts)
    return "/" + "/".join(parts[:depth]), "".join(f"/{each}" for each in parts[depth:])


def _query(request: Request) -> str:
    raw = request.raw_query if isinstance(request, ProxyRequest) else urlencode(request.query)
    return f"?{raw}" if raw else ""


async def _body(request: Request) -> AsyncIterator[bytes]:
    if isinstance(request, ProxyRequest) and request.chunks is not None:
        async for chunk in request.chunks:
            yield chunk
    elif request.body:
        yield request.body
