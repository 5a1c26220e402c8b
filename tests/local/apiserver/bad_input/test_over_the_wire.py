"""Faults of connections: bad credentials, incomplete requests, silence, disconnects."""

import asyncio
import contextlib
import json
import logging
import re
import ssl
import stat
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube.serving import bounded_connection, http_server
from kilonova.kube.serving.certificates import CertificateAuthority
from kilonova.local.apiserver.endpoints.handlers import BODY_LIMIT
from kilonova.local.apiserver.server import asgi
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster

TOKEN = "a-secret-that-nobody-may-read"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PATIENCE = 30.0
"""Seconds to wait for what a busy machine may delay."""


@dataclass
class Wire:
    """A listening cluster, and raw connections to it."""

    cluster: EmbeddedCluster
    data: Path

    @property
    def port(self) -> int:
        return int(self.cluster.url.rpartition(":")[2])

    async def connect(
        self, certificate: tuple[Path, Path] | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cafile=str(self.data / "pki" / "ca.crt"))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, server_hostname="localhost"
        )

    async def say(self, text: bytes, certificate: tuple[Path, Path] | None = None) -> bytes:
        """Send bytes, and read everything until the server closes the connection."""
        reader, writer = await self.connect(certificate)
        try:
            writer.write(text)
            await writer.drain()
            return await _read_reply(reader)
        finally:
            writer.close()

    def head(self, method: str, path: str, *headers: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        lines.append(f"Authorization: Bearer {TOKEN}")
        if not any(header.startswith("Connection") for header in headers):
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode()


async def _read_reply(reader: asyncio.StreamReader) -> bytes:
    received = b""
    try:
        async with asyncio.timeout(PATIENCE):
            while chunk := await reader.read(65536):
                received += chunk
    except (TimeoutError, ConnectionError, ssl.SSLError):
        pass
    return received


def status_of(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncIterator[Wire]:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(f'{TOKEN},admin,1,"system:masters"\n')
    data = tmp_path / "data"
    cluster = EmbeddedCluster(ClusterSettings(data=data, port=0, controllers="", token_file=tokens))
    await cluster.start()
    try:
        yield Wire(cluster, data)
    finally:
        await cluster.stop()


async def wait_settled(count: int) -> None:
    """Wait until there are no more tasks than before."""
    async with asyncio.timeout(PATIENCE):
        while len(asyncio.all_tasks()) > count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "header",
    [
        "X-None: 1",
        "Authorization: Bearer wrong",
        "Authorization: Bearer ",
        "Authorization: Basic YTpi",
        "Authorization: Bearer a.b.c",
        "Authorization: Bearer \xff\xfe",
    ],
)
async def test_invalid_credentials_reveal_nothing(wire: Wire, header: str) -> None:
    head = f"GET /api/v1/secrets HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}"
    request = f"{head}\r\n\r\n"
    response = await wire.say(request.encode("latin-1"))
    assert status_of(response) == 401
    assert json.loads(response.partition(b"\r\n\r\n")[2])["message"] == "Unauthorized"


async def test_certificate_of_another_ca_closes_the_connection(wire: Wire, tmp_path: Path) -> None:
    stranger = CertificateAuthority.create("stranger", datetime.now(UTC))
    issued = stranger.issue_client("admin", ["system:masters"], datetime.now(UTC))
    files = tmp_path / "client.crt", tmp_path / "client.key"
    files[0].write_bytes(issued.cert_pem)
    files[1].write_bytes(issued.key_pem)
    request = b"GET /api/v1/secrets HTTP/1.1\r\nHost: localhost\r\n\r\n"
    try:
        response = await wire.say(request, files)
    except (ssl.SSLError, ConnectionError):
        response = b""
    assert b"200 OK" not in response


async def test_token_of_a_deleted_account_is_rejected(wire: Wire) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await _post(wire, accounts, {"metadata": {"name": "robot"}})
    response = await _post(wire, f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    token = json.loads(response.partition(b"\r\n\r\n")[2])["status"]["token"]
    head = f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nConnection: close"
    request = f"{head}\r\nAuthorization: Bearer {token}\r\n\r\n"
    assert status_of(await wire.say(request.encode())) == 403  # authenticated, without permissions
    await wire.say(wire.head("DELETE", f"{accounts}/robot"))
    assert status_of(await wire.say(request.encode())) == 401


async def _post(wire: Wire, path: str, body: Any) -> bytes:
    text = json.dumps(body).encode()
    return await wire.say(wire.head("POST", path, f"Content-Length: {len(text)}") + text)


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        ("GET /version HTTP/1.0", 200),
        ("HEAD /version HTTP/1.1", 200),
        ("OPTIONS /version HTTP/1.1", 405),
        ("TRACE /version HTTP/1.1", 405),
        ("CONNECT localhost:443 HTTP/1.1", 404),
        ("GET / HTTP/9.9", 400),
        ("NONSENSE", 400),
        ("GET /version", 200),
    ],
)
async def test_malformed_request_lines_get_a_response(
    wire: Wire, request_line: str, expected: int
) -> None:
    headers = f"Host: a.example\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    response = await wire.say(f"{request_line}\r\n{headers}".encode())
    assert not response or status_of(response) in (expected, 400)


async def test_unsupported_upgrade_is_an_ordinary_request(wire: Wire) -> None:
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x")
    assert status_of(await wire.say(wire.head("GET", "/version", *upgrade))) == 200


async def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    first = wire.head("GET", "/version", "Connection: keep-alive")
    response = await wire.say(first + wire.head("GET", "/nowhere"))
    assert [int(each) for each in re.findall(rb"HTTP/1\.1 (\d+)", response)] == [200, 404]


async def test_oversized_body_is_rejected(wire: Wire) -> None:
    size = BODY_LIMIT + 1
    declared = wire.head("POST", CONFIG_MAPS, f"Content-Length: {size}") + b" " * size
    assert status_of(await wire.say(declared)) == 413
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    chunked = wire.head("POST", CONFIG_MAPS, "Transfer-Encoding: chunked") + chunk * 49
    assert status_of(await wire.say(chunked + b"0\r\n\r\n")) == 413


async def test_endless_head_is_rejected(wire: Wire) -> None:
    filler = b"X-Filler: " + b"x" * (bounded_connection.HEAD_LIMIT + 300_000)
    response = await wire.say(b"GET /version HTTP/1.1\r\nHost: localhost\r\n" + filler)
    assert not response or status_of(response) == 431


async def test_slow_head_and_slow_body_time_out(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_connection, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(asgi, "BODY_LIMITS", replace(asgi.BODY_LIMITS, idle_seconds=0.1))
    reader, writer = await wire.connect()
    writer.write(b"GET /version HTTP/1.1\r\nHost:")
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()
    keep_alive = "Connection: keep-alive"
    reader, writer = await wire.connect()
    writer.write(wire.head("POST", CONFIG_MAPS, "Content-Length: 100", keep_alive) + b"{")
    async with asyncio.timeout(PATIENCE):
        response = await reader.read()  # read to the end: the connection cannot be reused
    assert status_of(response) == 504
    writer.close()


async def test_continuous_body_times_out(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "BODY_LIMITS", replace(asgi.BODY_LIMITS, seconds=0.5))
    reader, writer = await wire.connect()
    writer.write(wire.head("POST", CONFIG_MAPS, "Content-Length: 1000000"))
    response = asyncio.create_task(reader.read())
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(ConnectionError):
            while not response.done():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        assert status_of(await response) == 504
    writer.close()


async def test_missing_tls_handshake_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "TLS_HANDSHAKE_SECONDS", 0.2)
    cluster = EmbeddedCluster(ClusterSettings(data=tmp_path, port=0, controllers=""))
    await cluster.start()
    try:
        port = int(cluster.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()
    finally:
        await cluster.stop()


@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH"])
async def test_incomplete_request_has_no_effect(wire: Wire, method: str) -> None:
    await _post(wire, CONFIG_MAPS, {"metadata": {"name": "kept"}})
    before, tasks = wire.cluster.store.revision, len(asyncio.all_tasks())
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/kept"
    _, writer = await wire.connect()
    yaml = "Content-Type: application/yaml"
    writer.write(
        wire.head(method, path, yaml, "Content-Length: 1000") + b"metadata: {name: half}\n"
    )
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.transport.abort()
    await wait_settled(tasks)
    assert wire.cluster.store.revision == before


async def test_disconnected_clients_leave_no_tasks(wire: Wire) -> None:
    tasks = len(asyncio.all_tasks())
    writers: list[asyncio.StreamWriter] = []
    for _ in range(100):
        reader, writer = await wire.connect()
        writer.write(wire.head("GET", f"{CONFIG_MAPS}?watch=1"))
        await reader.readuntil(b"\r\n\r\n")
        writers.append(writer)
    assert len(asyncio.all_tasks()) > tasks
    for writer in writers:
        writer.transport.abort()
    await wait_settled(tasks)


async def test_secrets_are_not_logged_and_files_are_private(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await wire.say(wire.head("GET", "/api/v1/secrets"))
    await wire.say(wire.head("GET", "/%zz/" + "x" * 100))
    response = await _post(wire, CONFIG_MAPS, {"metadata": {"name": "UPPER"}})
    review = {"spec": {"token": TOKEN + "-wrong"}}
    reviewed = await _post(wire, "/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert status_of(reviewed) == 201
    assert TOKEN not in caplog.text
    assert TOKEN.encode() not in response
    _check_modes(wire.data, lambda path: path.suffix != ".crt")


def _check_modes(folder: Path, private: Callable[[Path], bool]) -> None:
    for path in (folder, *folder.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir():
            assert mode == 0o700, path
        elif private(path):
            assert mode == 0o600, path
