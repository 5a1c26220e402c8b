"""The extender's server on a socket: limits, and certificates that are asked for and renewed."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from kilonova.kube.admission import FolderSource, GivenFiles
from kilonova.kube.certificates import Authority
from kilonova.kube.webserver import WebServer
from kilonova.scheduler.extender.certificate import LiveCertificate
from tests.scheduler.extender.scene import Scene, node

NOW = datetime.now(UTC)


@asynccontextmanager
async def _served(
    certificate: LiveCertificate | None = None, limit: int = 10_000
) -> AsyncGenerator[str]:
    server = WebServer(
        "extender",
        Scene(node("a")).endpoints,
        host="127.0.0.1",
        port=0,
        tls=certificate and certificate.context,
        body_limit=limit,
    )
    port = server.bind()
    running = asyncio.create_task(server.run())
    try:
        yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{port}"
    finally:
        server.stop()
        await running


async def test_bodies_beyond_the_limit_are_refused_and_the_server_goes_on() -> None:
    async with _served() as url, aiohttp.ClientSession() as session:
        for size in (10_001, 1_000_000):
            async with session.post(f"{url}/filter", data=b" " * size) as reply:
                assert reply.status == 413
                assert "larger than 10000 bytes" in await reply.text()
        async with session.post(f"{url}/filter", data=b"{}") as reply:
            assert (reply.status, await reply.json()) == (400, {"Error": "Pod: missing"})
        async with session.post(f"{url}/scheduler/filter", data=b"{}") as reply:
            assert reply.status == 404


async def test_only_those_with_a_certificate_are_answered(tmp_path: Path) -> None:
    clients = Authority.create("clients", NOW)
    (tmp_path / "clients.crt").write_bytes(clients.cert_pem)
    clients.issue_client("kube-scheduler", [], NOW).write(tmp_path / "c.crt", tmp_path / "c.key")
    certificate = LiveCertificate(
        FolderSource(tmp_path / "own", ("127.0.0.1",)), tmp_path / "clients.crt"
    )
    await certificate.load()
    known = ssl.create_default_context(cafile=tmp_path / "own" / "ca.crt")
    known.load_cert_chain(tmp_path / "c.crt", tmp_path / "c.key")
    stranger = ssl.create_default_context(cafile=tmp_path / "own" / "ca.crt")
    async with _served(certificate) as url, aiohttp.ClientSession() as session:
        async with session.post(f"{url}/filter", data=b"{}", ssl=known) as reply:
            assert reply.status == 400
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{url}/filter", data=b"{}", ssl=stranger)


async def test_a_renewed_certificate_is_shown_and_a_broken_one_is_not(tmp_path: Path) -> None:
    authority = Authority.create("own", NOW)
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem)
    authority.issue_server(["127.0.0.1"], NOW).write(cert, key)
    certificate = LiveCertificate(GivenFiles(cert, key, cert))
    await certificate.load()
    async with _served(certificate) as url:
        before = await _shown(url, tmp_path / "ca.crt")
        authority.issue_server(["127.0.0.1"], NOW).write(cert, key)
        await certificate.load()
        renewed = await _shown(url, tmp_path / "ca.crt")
        assert renewed != before
        cert.write_text("nonsense")
        with pytest.raises((ValueError, OSError)):
            await certificate.load()
        assert await _shown(url, tmp_path / "ca.crt") == renewed


async def _shown(url: str, ca: Path) -> bytes:
    """The certificate that a server shows to a new client."""
    context = ssl.create_default_context(cafile=ca)
    host, _, port = url.removeprefix("https://").rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
        await writer.wait_closed()
