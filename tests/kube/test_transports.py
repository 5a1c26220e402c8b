"""The two transports: over HTTP to a real socket, and within the process."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from kilonova.kube import ConnectionFailed, InProcessTransport, Reply, Request, StreamReply
from kilonova.kube.certificates import Authority
from kilonova.kube.credentials import Credential, FixedCredentials, bearer
from kilonova.kube.endpoint import Endpoint, Trust
from kilonova.kube.http import HttpTransport

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

NOW = datetime.now(UTC)
AUTHORITY = Authority.create("test", NOW)


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def plain_transport(handler: Handler) -> AsyncGenerator[HttpTransport]:
    async with serving(handler) as server:
        transport = HttpTransport(Endpoint(server, Trust()))
        try:
            yield transport
        finally:
            await transport.close()


async def test_a_request_arrives_as_it_was_made() -> None:
    async def handler(request: web.Request) -> web.Response:
        seen = (request.method, request.path, list(request.query.items()), await request.read())
        assert request.headers["x-kind"] == "1"
        return web.Response(status=201, text=repr(seen), headers={"Retry-After": "3"})

    query = [("labelSelector", "a in (b,ü)"), ("x", "1"), ("x", "a&b=c")]
    request = Request("PATCH", "/api/v1/nodes/a:b é", query, {"x-kind": "1"}, b"body")
    async with plain_transport(handler) as transport:
        reply = await transport.send(request)
    assert reply.status == 201
    assert reply.headers["retry-after"] == "3"
    assert reply.body.decode() == repr(("PATCH", "/api/v1/nodes/a:b é", query, b"body"))


async def test_connections_are_kept_alive() -> None:
    peers: set[object] = set()

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response(text="ok")

    async with plain_transport(handler) as transport:
        for _ in range(5):
            await transport.send(Request("GET", "/"))
    assert len(peers) == 1


async def test_a_stream_is_read_as_it_comes_and_ends_on_leaving() -> None:
    step, ended = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            await response.write(b"one\n")
            await step.wait()
            await response.write(b"two\n")
            while True:
                await asyncio.sleep(0.01)
                await response.write(b"more\n")
        finally:
            ended.set()

    async with plain_transport(handler) as transport:
        async with transport.stream(Request("GET", "/")) as reply:
            assert reply.status == 200
            assert await anext(reply.chunks) == b"one\n"
            step.set()
            assert (await anext(reply.chunks)).startswith(b"two\n")
        await asyncio.wait_for(ended.wait(), 10)


async def test_a_stream_cut_off_is_a_failed_connection() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with (
        plain_transport(handler) as transport,
        transport.stream(Request("GET", "/")) as reply,
    ):
        with pytest.raises(ConnectionFailed):
            [chunk async for chunk in reply.chunks]


async def test_no_server_is_a_failed_connection() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    async with serving(handler) as server:
        pass
    transport = HttpTransport(Endpoint(server, Trust()))
    with pytest.raises(ConnectionFailed, match=f"^{server}: Connection refused$"):
        await transport.send(Request("GET", "/"))
    await transport.close()


async def test_an_answer_that_takes_too_long_is_a_failed_connection() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with serving(handler) as server:
        transport = HttpTransport(Endpoint(server, Trust()), timeout=0.1)
        with pytest.raises(ConnectionFailed, match="Timeout"):
            await transport.send(Request("GET", "/"))
        await transport.close()


class Renewable:
    """Credentials of which the first is worn out."""

    def __init__(self, better: bool) -> None:
        self.asked_anew = 0
        self._better = better

    async def current(self) -> Credential:
        return bearer("new" if self.asked_anew and self._better else "old")

    def refused(self, credential: Credential) -> bool:
        assert credential == bearer("old")
        self.asked_anew += 1
        return True


@pytest.mark.parametrize(("better", "status"), [(True, 200), (False, 401)])
async def test_refused_credentials_are_renewed_once(better: bool, status: int) -> None:
    async def handler(request: web.Request) -> web.Response:
        accepted = request.headers["authorization"] == "Bearer new"
        return web.Response(status=200 if accepted else 401, text=await request.text())

    credentials = Renewable(better)
    async with serving(handler) as server:
        transport = HttpTransport(Endpoint(server, Trust()), credentials)
        reply = await transport.send(Request("POST", "/", body=b"once"))
        async with transport.stream(Request("GET", "/")) as stream:
            assert stream.status == status
        await transport.close()
    assert (reply.status, reply.body) == (status, b"once")
    assert credentials.asked_anew == (1 if better else 2)


@pytest.fixture
def tls_server(tmp_path: Path) -> ssl.SSLContext:
    """TLS for the name `api.test`, asking for client certificates."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_server(["api.test"], NOW).write(tmp_path / "tls.crt", tmp_path / "tls.key")
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    context.load_verify_locations(cadata=AUTHORITY.cert_pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def _who(request: web.Request) -> web.Response:
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    names = dict(part[0] for part in certificate.get("subject", ()))
    groups = ",".join(request.headers.getall("impersonate-group", []))
    return web.Response(text=f"{names.get('commonName', 'anonymous')} {groups}".strip())


TRUSTED = Trust(AUTHORITY.cert_pem)


@pytest.mark.parametrize(
    ("trust", "name", "answer"),
    [
        (TRUSTED, "api.test", "alice x,y"),
        (Trust(insecure=True), "", "alice x,y"),
        (TRUSTED, "", None),
        (TRUSTED, "other.test", None),
        (Trust(), "api.test", None),
    ],
)
async def test_only_the_right_server_learns_who_we_are(
    trust: Trust, name: str, answer: str | None, tls_server: ssl.SSLContext
) -> None:
    pair = AUTHORITY.issue_client("alice", [], NOW)
    credentials = FixedCredentials(Credential("", pair.cert_pem, pair.key_pem))
    groups = (("impersonate-group", "x"), ("impersonate-group", "y"))
    async with serving(_who, tls_server) as server:
        endpoint = Endpoint(server, trust, tls_server_name=name, headers=groups)
        transport = HttpTransport(endpoint, credentials)
        try:
            if answer is None:
                with pytest.raises(ConnectionFailed, match="certificate"):
                    await transport.send(Request("GET", "/"))
            else:
                reply = await transport.send(Request("GET", "/"))
                assert reply.body.decode() == answer
        finally:
            await transport.close()


async def test_requests_go_through_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def proxy(request: web.Request) -> web.Response:
        return web.Response(text=f"proxied {request.raw_path}")

    async with serving(proxy) as address:
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("no_proxy", "direct.test")
        transport = HttpTransport(Endpoint("http://api.test", Trust()))
        reply = await transport.send(Request("GET", "/x"))
        await transport.close()
    assert reply.body == b"proxied http://api.test/x"


async def test_in_process_requests_are_answered_without_a_copy() -> None:
    body = b"body"

    async def api(request: Request) -> Reply:
        return Reply(200, request.body, {"x": request.path})

    reply = await InProcessTransport(api).send(Request("POST", "/p", body=body))
    assert reply.body is body
    assert reply.headers == {"x": "/p"}


class Endless:
    """An API whose every answer is a stream, and that knows when it has ended."""

    def __init__(self, *chunks: bytes) -> None:
        self.ended = False
        self._chunks = chunks

    async def answer(self, _request: Request) -> StreamReply:
        return StreamReply(200, self._play(), {"kind": "stream"})

    async def _play(self) -> AsyncGenerator[bytes]:
        try:
            for chunk in self._chunks:
                yield chunk
        finally:
            self.ended = True


async def test_an_in_process_stream_ends_on_leaving() -> None:
    api = Endless(b"1", b"2", b"3")
    async with InProcessTransport(api.answer).stream(Request("GET", "/")) as reply:
        assert await anext(reply.chunks) == b"1"
        assert not api.ended
    assert api.ended


async def test_either_form_of_answer_can_be_had_in_the_other() -> None:
    gathered = await InProcessTransport(Endless(b"1", b"2").answer).send(Request("GET", "/"))
    assert (gathered.status, gathered.body, gathered.headers) == (200, b"12", {"kind": "stream"})

    async def whole(_request: Request) -> Reply:
        return Reply(404, b"not here")

    async with InProcessTransport(whole).stream(Request("GET", "/")) as reply:
        assert reply.status == 404
        assert [chunk async for chunk in reply.chunks] == [b"not here"]
