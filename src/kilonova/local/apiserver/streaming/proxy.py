"""`pods/proxy`, `services/proxy` and `nodes/proxy`: HTTP requests forwarded to pods."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlencode, urlsplit

from kilonova.api.json import JsonObject
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apimachinery.errors import ApiError, method_not_allowed
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.streaming.http_exchange import (
    Headers,
    HttpExchange,
    UpstreamRequest,
    UpstreamResponse,
)
from kilonova.local.apiserver.streaming.proxy_targets import (
    FindObject,
    ProxyTarget,
    resolve_pod,
    resolve_service,
)
from kilonova.local.kubelet_api import Kubelets

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
_REPLACED_HEADERS = {"authorization", "host", "content-length", "expect", "x-forwarded-for"}
"""Further headers that are for this server or are rewritten."""


@dataclass(slots=True)
class ProxyRequest(Request):
    """A request whose body has not been read, with the client's address."""

    chunks: AsyncIterator[bytes] | None = None
    raw_query: str = ""
    client: str = ""


@dataclass(slots=True)
class ProxyReply(StreamReply):
    """A pod's response; header names may repeat."""

    header_pairs: Headers = field(default_factory=list[tuple[str, str]])
    waits_for_client: bool = True


class PodProxy:
    """Forwards requests to pods. `find_pod`, `find_service` and `slices` read stored objects."""

    def __init__(
        self,
        kubelets: Kubelets,
        find_pod: FindObject,
        find_service: FindObject,
        slices: Callable[[str, str], list[JsonObject]],
        random: Random,
    ) -> None:
        self._kubelets = kubelets
        self._find_pod = find_pod
        self._find_service = find_service
        self._list_slices = slices
        self._random = random

    async def proxy_pod(self, target: ResourceTarget, request: Request) -> Reply | StreamReply:
        proxy_target = resolve_pod(target.namespace, target.name, self._find_pod)
        return await self._forward_request(request, proxy_target, target.subpath)

    async def proxy_service(self, target: ResourceTarget, request: Request) -> Reply | StreamReply:
        proxy_target = resolve_service(
            target.namespace,
            target.name,
            self._find_service,
            self._find_pod,
            self._list_slices,
            self._random,
        )
        return await self._forward_request(request, proxy_target, target.subpath)

    async def _forward_request(
        self, request: Request, target: ProxyTarget, path: str
    ) -> Reply | StreamReply:
        if request.method not in METHODS:
            raise method_not_allowed()
        prefix = request.path.removesuffix(path)
        if not path and request.method in ("GET", "HEAD"):
            return Reply(301, b"", {"location": f"{prefix}/{_query_string(request)}"})
        kubelet = self._kubelets.get(target.pod["spec"].get("nodeName", ""))
        upstream_request = UpstreamRequest(
            request.method,
            (path or "/") + _query_string(request),
            request_headers(request, request.path),
            _request_body(request),
        )
        try:
            exchange = HttpExchange(*await kubelet.dial(target.pod, target.port))
            if target.tls:
                await exchange.start_tls()
            answered = await exchange.perform(upstream_request)
        except OSError as error:
            raise ApiError(
                503, "ServiceUnavailable", f"error trying to reach service: {error}"
            ) from error
        return ProxyReply(
            answered.status,
            answered.chunks,
            header_pairs=response_headers(answered, prefix, request.headers.get("host", "")),
        )


def request_headers(request: Request, path: str) -> Headers:
    """The client's headers without hop-by-hop ones, with X-Forwarded-* added."""
    dropped = (
        _HOP_BY_HOP | _REPLACED_HEADERS | _connection_headers(request.headers.get("connection", ""))
    )
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
    hops = [request.headers.get("x-forwarded-for", "")]
    if isinstance(request, ProxyRequest):
        hops.append(request.client)
    if forwarded_for := ", ".join(filter(None, hops)):
        headers.append(("X-Forwarded-For", forwarded_for))
    return headers


def response_headers(response: UpstreamResponse, prefix: str, host: str) -> Headers:
    """The pod's headers for the client; a location on the pod is rewritten to the proxy."""
    connection = ",".join(value for name, value in response.headers if name == "connection")
    dropped = _HOP_BY_HOP | _connection_headers(connection)
    return [
        (name, _rewrite_location(value, prefix, host) if name == "location" else value)
        for name, value in response.headers
        if name not in dropped
    ]


def _rewrite_location(location: str, prefix: str, host: str) -> str:
    try:
        parts = urlsplit(location)
    except ValueError:
        return location
    if (parts.netloc and parts.netloc != host) or not parts.path.startswith("/"):
        return location
    if parts.path.startswith(prefix):
        return location
    return parts._replace(scheme="https", netloc=host, path=prefix + parts.path).geturl()


def _connection_headers(value: str) -> set[str]:
    return {item.strip().lower() for item in value.split(",")}


def _query_string(request: Request) -> str:
    raw = request.raw_query if isinstance(request, ProxyRequest) else urlencode(request.query)
    return f"?{raw}" if raw else ""


async def _request_body(request: Request) -> AsyncIterator[bytes]:
    if isinstance(request, ProxyRequest) and request.chunks is not None:
        async for chunk in request.chunks:
            yield chunk
    elif request.body:
        yield request.body
