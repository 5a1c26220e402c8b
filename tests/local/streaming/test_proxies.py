"""`pods/proxy` and `services/proxy`: HTTP to pods through the API."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube.resource import plain
from tests.local.embedded_cluster import SERVICES
from tests.local.streaming.scene import Scene

SLICES = plain("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
PODS = "/api/v1/namespaces/default/pods"
SERVICES_PATH = "/api/v1/namespaces/default/services"

Respond = Callable[[str, list[str], asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _web(respond: Respond) -> AsyncGenerator[int]:
    """A server that is given the first line and the headers of each request."""

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
    """Tell the client what it said."""
    pairs = {name.lower(): value for name, value in (each.split(": ", 1) for each in headers)}
    body = await reader.readexactly(int(pairs.get("content-length", 0)))
    said = json.dumps({"line": line, "headers": pairs, "body": body.decode()}).encode()
    extra = "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: close, X-Hop\r\nX-Hop: no\r\n"
    writer.write(f"HTTP/1.1 418 Teapot\r\n{extra}Content-Length: {len(said)}\r\n\r\n".encode())
    writer.write(said)


async def test_a_request_is_passed_on_and_its_answer_back(scene: Scene) -> None:
    await scene.pod("web")
    async with _web(_mirror) as port:
        path = f"{PODS}/web:{port}/proxy/a%2Fb/c//d/?q=1&q=a%20b+c"
        headers = {"X-Mine": "yes", "Impersonate-Nobody": "x", "Keep-Alive": "9"}
        answer = await scene.raw("POST", path, headers, b"hello")
    said = answer.json
    assert answer.status == 418
    assert answer.header("set-cookie") == ["a=1", "b=2"]
    assert answer.header("x-hop") == []
    assert said["line"] == "POST /a%2Fb/c//d/?q=1&q=a%20b+c HTTP/1.1"
    assert said["body"] == "hello"
    given: dict[str, str] = said["headers"]
    assert given["x-mine"] == "yes"
    assert given["x-forwarded-uri"] == f"{PODS}/web:{port}/proxy/a%2Fb/c//d/"
    assert given["x-forwarded-host"] == "cluster.example"
    assert given["x-forwarded-for"] == "127.0.0.1"
    assert not {"authorization", "keep-alive", "impersonate-nobody"} & set(given)


async def test_a_secret_of_the_client_stays_here(scene: Scene) -> None:
    await scene.pod("web")
    async with _web(_mirror) as port:
        token = {"Authorization": "Basic cmVzdA=="}
        answer = await scene.raw("GET", f"{PODS}/web:{port}/proxy/", token)
    assert "authorization" not in answer.json["headers"]


async def test_a_pod_without_a_path_is_its_root(scene: Scene) -> None:
    await scene.pod("web", ports=[{"containerPort": 8080}])
    answer = await scene.raw("GET", f"{PODS}/web/proxy?x=1")
    assert answer.status == 301
    assert answer.header("location") == [f"{PODS}/web/proxy/?x=1"]


async def test_redirects_lead_back_through_the_proxy(scene: Scene) -> None:
    await scene.pod("web")

    async def move(*request: Any) -> None:
        request[-1].write(b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n")

    async with _web(move) as port:
        answer = await scene.raw("GET", f"{PODS}/web:{port}/proxy/")
    assert answer.header("location") == [f"https://cluster.example{PODS}/web:{port}/proxy/login"]


async def test_bodies_stream_both_ways(scene: Scene) -> None:
    await scene.pod("web")
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
        answer = await scene.raw("PUT", f"{PODS}/web:{port}/proxy/count", body=b"x" * size)
    assert answer.header("transfer-encoding") == ["chunked"]
    assert answer.body.count(b"x") == size
    assert answer.body.endswith(b"\r\n0\r\n\r\n")


async def test_a_service_leads_to_a_ready_pod(scene: Scene) -> None:
    await scene.pod("ready")
    await scene.pod("not-ready")
    async with _web(_mirror) as port:
        ports = [{"name": "http", "port": 80, "targetPort": port}]
        service: Any = {"metadata": {"name": "web"}, "spec": {"ports": ports}}
        await scene.client.create(SERVICES, service, "default")
        for path, code, told in (
            ("web:http", 503, 'no endpoints available for service "web"'),
            ("web:99", 503, 'no service port 99 found for service "web"'),
            ("none:80", 404, 'services "none" not found'),
            ("none", 404, 'services "none" not found'),
            ("a:b:c:d", 400, 'invalid service request "a:b:c:d"'),
            ("ftp:web:80", 400, 'invalid service request "ftp:web:80"'),
        ):
            answer = await scene.raw("GET", f"{SERVICES_PATH}/{path}/proxy/")
            assert (answer.status, answer.json["message"]) == (code, told)
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
        await scene.client.create(SLICES, slice_, "default")
        for name in ("web:http", "web:80", "http:web:http"):
            answer = await scene.raw("GET", f"{SERVICES_PATH}/{name}/proxy/")
            assert answer.status == 418


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"", "error trying to reach service"),
        (b"not http at all\r\n\r\n", "error trying to reach service: not HTTP"),
    ],
)
async def test_a_pod_that_does_not_speak_http(scene: Scene, reply: bytes, words: str) -> None:
    await scene.pod("web")

    async def answer(*request: Any) -> None:
        request[-1].write(reply)

    async with _web(answer) as port:
        got = await scene.raw("GET", f"{PODS}/web:{port}/proxy/")
    assert got.status == 503
    assert words in got.json["message"]


async def test_half_an_answer_is_not_taken_for_the_whole(scene: Scene) -> None:
    await scene.pod("web")

    async def break_off(*request: Any) -> None:
        request[-1].write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        await request[-1].drain()

    async with _web(break_off) as port:
        answer = await scene.raw("GET", f"{PODS}/web:{port}/proxy/")
    assert answer.body == b"4\r\nhalf\r\n"


async def test_a_port_that_nobody_listens_on(scene: Scene) -> None:
    await scene.pod("web")
    async with _web(_mirror) as port:
        pass
    answer = await scene.raw("GET", f"{PODS}/web:{port}/proxy/")
    assert (answer.status, answer.json["reason"]) == (503, "ServiceUnavailable")


async def test_nodes_have_no_pages(scene: Scene) -> None:
    answer = await scene.raw("GET", "/api/v1/nodes/this-machine/proxy/metrics")
    assert answer.status == 501
    assert "serves no pages of its own" in answer.json["message"]
