"""`pods/proxy` and `services/proxy`: HTTP to pods through the API server."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube.client.resource import unstructured_resource
from tests.local.apiserver.streaming.streaming_cluster import StreamingCluster
from tests.local.embedded_cluster import SERVICES

SLICES = unstructured_resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
PODS = "/api/v1/namespaces/default/pods"
SERVICES_PATH = "/api/v1/namespaces/default/services"

Respond = Callable[[str, list[str], asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _web(respond: Respond) -> AsyncGenerator[int]:
    """A server whose handler receives the request line and the headers."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
            await respond(head[0], head[1:], reader, writer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _mirror(
    line: str, headers: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Return the request to the client."""
    pairs = {name.lower(): value for name, value in (each.split(": ", 1) for each in headers)}
    body = await reader.readexactly(int(pairs.get("content-length", 0)))
    received = json.dumps({"line": line, "headers": pairs, "body": body.decode()}).encode()
    extra = "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: close, X-Hop\r\nX-Hop: no\r\n"
    writer.write(f"HTTP/1.1 418 Teapot\r\n{extra}Content-Length: {len(received)}\r\n\r\n".encode())
    writer.write(received)


async def test_request_and_response_are_proxied(
    streaming_cluster: StreamingCluster,
) -> None:
    await streaming_cluster.pod("web")
    async with _web(_mirror) as port:
        path = f"{PODS}/web:{port}/proxy/a%2Fb/c//d/?q=1&q=a%20b+c"
        headers = {"X-Mine": "yes", "Impersonate-Nobody": "x", "Keep-Alive": "9"}
        response = await streaming_cluster.raw("POST", path, headers, b"hello")
    received = response.json
    assert response.status == 418
    assert response.header("set-cookie") == ["a=1", "b=2"]
    assert response.header("x-hop") == []
    assert received["line"] == "POST /a%2Fb/c//d/?q=1&q=a%20b+c HTTP/1.1"
    assert received["body"] == "hello"
    provided: dict[str, str] = received["headers"]
    assert provided["x-mine"] == "yes"
    assert provided["x-forwarded-uri"] == f"{PODS}/web:{port}/proxy/a%2Fb/c//d/"
    assert provided["x-forwarded-host"] == "cluster.example"
    assert provided["x-forwarded-for"] == "127.0.0.1"
    assert not {"authorization", "keep-alive", "impersonate-nobody"} & set(provided)


async def test_client_credentials_are_not_forwarded(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("web")
    async with _web(_mirror) as port:
        token = {"Authorization": "Basic cmVzdA=="}
        response = await streaming_cluster.raw("GET", f"{PODS}/web:{port}/proxy/", token)
    assert "authorization" not in response.json["headers"]


async def test_proxy_without_a_path_redirects_to_the_root(
    streaming_cluster: StreamingCluster,
) -> None:
    await streaming_cluster.pod("web", ports=[{"containerPort": 8080}])
    response = await streaming_cluster.raw("GET", f"{PODS}/web/proxy?x=1")
    assert response.status == 301
    assert response.header("location") == [f"{PODS}/web/proxy/?x=1"]


async def test_redirects_are_rewritten_to_the_proxy(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("web")

    async def move(*request: Any) -> None:
        request[-1].write(b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n")

    async with _web(move) as port:
        response = await streaming_cluster.raw("GET", f"{PODS}/web:{port}/proxy/")
    assert response.header("location") == [f"https://cluster.example{PODS}/web:{port}/proxy/login"]


async def test_bodies_are_streamed_both_ways(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("web")
    size = 12 << 20  # more than an object may have

    async def count(
        line: str, headers: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        left = size
        while left:
            data = await reader.read(65536)
            left -= len(data)
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async with _web(count) as port:
        response = await streaming_cluster.raw(
            "PUT", f"{PODS}/web:{port}/proxy/count", body=b"x" * size
        )
    assert response.header("transfer-encoding") == ["chunked"]
    assert response.body.count(b"x") == size
    assert response.body.endswith(b"\r\n0\r\n\r\n")


async def test_service_proxy_reaches_a_ready_pod(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("ready")
    await streaming_cluster.pod("not-ready")
    async with _web(_mirror) as port:
        ports = [{"name": "http", "port": 80, "targetPort": port}]
        service: Any = {"metadata": {"name": "web"}, "spec": {"ports": ports}}
        await streaming_cluster.client.create(SERVICES, service, "default")
        for path, code, reported in (
            ("web:http", 503, 'no endpoints available for service "web"'),
            ("web:99", 503, 'no service port 99 found for service "web"'),
            ("none:80", 404, 'services "none" not found'),
            ("none", 404, 'services "none" not found'),
            ("a:b:c:d", 400, 'invalid service request "a:b:c:d"'),
            ("ftp:web:80", 400, 'invalid service request "ftp:web:80"'),
        ):
            response = await streaming_cluster.raw("GET", f"{SERVICES_PATH}/{path}/proxy/")
            assert (response.status, response.json["message"]) == (code, reported)
        slice_: Any = {
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": port}],
            "endpoints": [
                {
                    "addresses": ["10.0.0.1"],
                    "conditions": {"ready": name == "ready"},
                    "targetRef": {"kind": "Pod", "name": name, "namespace": "default"},
                }
                for name in ("not-ready", "ready")
            ],
        }
        await streaming_cluster.client.create(SLICES, slice_, "default")
        for name in ("web:http", "web:80", "http:web:http"):
            response = await streaming_cluster.raw("GET", f"{SERVICES_PATH}/{name}/proxy/")
            assert response.status == 418


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"", "error trying to reach service"),
        (b"not http at all\r\n\r\n", "error trying to reach service: not HTTP"),
    ],
)
async def test_pod_without_http_is_a_gateway_error(
    streaming_cluster: StreamingCluster, reply: bytes, message: str
) -> None:
    await streaming_cluster.pod("web")

    async def response(*request: Any) -> None:
        request[-1].write(reply)

    async with _web(response) as port:
        got = await streaming_cluster.raw("GET", f"{PODS}/web:{port}/proxy/")
    assert got.status == 503
    assert message in got.json["message"]


async def test_truncated_response_is_not_completed(
    streaming_cluster: StreamingCluster,
) -> None:
    await streaming_cluster.pod("web")

    async def break_off(*request: Any) -> None:
        request[-1].write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        await request[-1].drain()

    async with _web(break_off) as port:
        response = await streaming_cluster.raw("GET", f"{PODS}/web:{port}/proxy/")
    assert response.body == b"4\r\nhalf\r\n"


async def test_port_without_a_listener(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("web")
    async with _web(_mirror) as port:
        pass
    response = await streaming_cluster.raw("GET", f"{PODS}/web:{port}/proxy/")
    assert (response.status, response.json["reason"]) == (503, "ServiceUnavailable")


async def test_node_proxy_is_not_supported(streaming_cluster: StreamingCluster) -> None:
    response = await streaming_cluster.raw("GET", "/api/v1/nodes/this-machine/proxy/metrics")
    assert response.status == 501
    assert "does not support proxying" in response.json["message"]
