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
from kilonova.kube.client.config.credentials import Credential, FixedCredentials, bearer_credential
from kilonova.kube.client.config.endpoint import Endpoint, TlsClientConfig
from kilonova.kube.client.http_transport import HttpTransport
from kilonova.kube.serving.certificates import CertificateAuthority

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

NOW = datetime.now(UTC)
AUTHORITY = CertificateAuthority.create("test", NOW)


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
        transport = HttpTransport(Endpoint(server, TlsClientConfig()))
        try:
            yield transport
        finally:
            await transport.close()


async def test_request_arrives_unchanged() -> None:
    async def handler(request: web.Request) -> web.Response:
        observed = (request.method, request.path, list(request.query.items()), await request.read())
        assert request.headers["x-kind"] == "1"
        return web.Response(status=201, text=repr(observed), headers={"Retry-After": "3"})

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


async def test_stream_is_read_incrementally_and_ends_on_leaving() -> None:
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


async def test_truncated_stream_is_a_connection_failure() -> None:
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


async def test_unreachable_server_is_a_connection_failure() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    async with serving(handler) as server:
        pass
    transport = HttpTransport(Endpoint(server, TlsClientConfig()))
    with pytest.raises(ConnectionFailed, match=f"^{server}: Connection refused$"):
        await transport.send(Request("GET", "/"))
    await transport.close()


async def test_response_timeout_is_a_connection_failure() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with serving(handler) as server:
        transport = HttpTransport(Endpoint(server, TlsClientConfig()), timeout=0.1)
        with pytest.raises(ConnectionFailed, match="Timeout"):
            await transport.send(Request("GET", "/"))
        await transport.close()


class RenewableCredentials:
    """Credentials of which the first one is rejected."""

    def __init__(self, valid_after_renewal: bool) -> None:
        self.renewals = 0
        self._valid_after_renewal = valid_after_renewal

    async def current(self) -> Credential:
        return bearer_credential("new" if self.renewals and self._valid_after_renewal else "old")

    def invalidate(self, credential: Credential) -> bool:
        assert credential == bearer_credential("old")
        self.renewals += 1
        return True


@pytest.mark.parametrize(("better", "status"), [(True, 200), (False, 401)])
async def test_rejected_credentials_are_renewed_once(better: bool, status: int) -> None:
    async def handler(request: web.Request) -> web.Response:
        accepted = request.headers["authorization"] == "Bearer new"
        return web.Response(status=200 if accepted else 401, text=await request.text())

    credentials = RenewableCredentials(better)
    async with serving(handler) as server:
        transport = HttpTransport(Endpoint(server, TlsClientConfig()), credentials)
        reply = await transport.send(Request("POST", "/", body=b"once"))
        async with transport.stream(Request("GET", "/")) as stream:
            assert stream.status == status
        await transport.close()
    assert (reply.status, reply.body) == (status, b"once")
    assert credentials.renewals == (1 if better else 2)


@pytest.fixture
def tls_server(tmp_path: Path) -> ssl.SSLContext:
    """A TLS server for `api.test` that requests client certificates."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_server(["api.test"], NOW).write(tmp_path / "tls.crt", tmp_path / "tls.key")
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    context.load_verify_locations(cadata=AUTHORITY.cert_pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def _reply_with_client_name(request: web.Request) -> web.Response:
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    names = dict(part[0] for part in certificate.get("subject", ()))
    groups = ",".join(request.headers.getall("impersonate-group", []))
    return web.Response(text=f"{names.get('commonName', 'anonymous')} {groups}".strip())


TRUSTED_CA = TlsClientConfig(AUTHORITY.cert_pem)


@pytest.mark.parametrize(
    ("trust", "name", "answer"),
    [
        (TRUSTED_CA, "api.test", "alice x,y"),
        (TlsClientConfig(insecure=True), "", "alice x,y"),
        (TRUSTED_CA, "", None),
        (TRUSTED_CA, "other.test", None),
        (TlsClientConfig(), "api.test", None),
    ],
)
async def test_credentials_are_sent_only_to_the_verified_server(
    trust: TlsClientConfig, name: str, answer: str | None, tls_server: ssl.SSLContext
) -> None:
    pair = AUTHORITY.issue_client("alice", [], NOW)
    credentials = FixedCredentials(Credential("", pair.cert_pem, pair.key_pem))
    groups = (("impersonate-group", "x"), ("impersonate-group", "y"))
    async with serving(_reply_with_client_name, tls_server) as server:
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
        transport = HttpTransport(Endpoint("http://api.test", TlsClientConfig()))
        reply = await transport.send(Request("GET", "/x"))
        await transport.close()
    assert reply.body == b"proxied http://api.test/x"


async def test_in_process_requests_are_not_copied() -> None:
    body = b"body"

    async def api(request: Request) -> Reply:
        return Reply(200, request.body, {"x": request.path})

    reply = await InProcessTransport(api).send(Request("POST", "/p", body=body))
    assert reply.body is body
    assert reply.headers == {"x": "/p"}


class InfiniteStream:
    """A server whose every response is a stream, and that records its end."""

    def __init__(self, *chunks: bytes) -> None:
        self.ended = False
        self._chunks = chunks

    async def handle(self, _request: Request) -> StreamReply:
        return StreamReply(200, self._play(), {"kind": "stream"})

    async def _play(self) -> AsyncGenerator[bytes]:
        try:
            for chunk in self._chunks:
                yield chunk
        finally:
            self.ended = True


async def test_in_process_stream_ends_on_leaving() -> None:
    api = InfiniteStream(b"1", b"2", b"3")
    async with InProcessTransport(api.handle).stream(Request("GET", "/")) as reply:
        assert await anext(reply.chunks) == b"1"
        assert not api.ended
    assert api.ended


async def test_whole_and_streamed_replies_convert_into_each_other() -> None:
    gathered = await InProcessTransport(InfiniteStream(b"1", b"2").handle).send(Request("GET", "/"))
    assert (gathered.status, gathered.body, gathered.headers) == (200, b"12", {"kind": "stream"})

    async def whole(_request: Request) -> Reply:
        return Reply(404, b"not here")

    async with InProcessTransport(whole).stream(Request("GET", "/")) as reply:
        assert reply.status == 404
        assert [chunk async for chunk in reply.chunks] == [b"not here"]
