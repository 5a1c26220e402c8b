"""The extender's HTTP server: limits, client certificates, renewed certificates."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from kilonova.kube.admission import FolderSource
from kilonova.kube.serving.certificate_watcher import CertificateWatcher
from kilonova.kube.serving.certificates import CertificateAuthority
from kilonova.kube.serving.http_server import create_tls_context
from kilonova.kube.serving.web_server import WebServer
from kilonova.scheduler.extender.handlers import error_reply
from tests.scheduler.extender.extender_fixture import ExtenderScenario, node

NOW = datetime.now(UTC)


@asynccontextmanager
async def _serve(tls: ssl.SSLContext | None = None, limit: int = 10_000) -> AsyncGenerator[str]:
    server = WebServer(
        "extender",
        ExtenderScenario(node("a")).endpoints,
        host="127.0.0.1",
        port=0,
        tls=tls,
        body_limit=limit,
        error_reply=error_reply,
    )
    port = server.bind()
    running = asyncio.create_task(server.run())
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    finally:
        server.stop()
        await running


async def test_too_large_bodies_are_rejected_and_serving_continues() -> None:
    async with _serve() as url, aiohttp.ClientSession() as session:
        for size in (10_001, 1_000_000):
            async with session.post(f"{url}/filter", data=b" " * size) as reply:
                assert reply.status == 413
                assert "larger than 10000 bytes" in (await reply.json())["Error"]
        async with session.post(f"{url}/filter", data=b"{}") as reply:
            assert (reply.status, await reply.json()) == (400, {"Error": "Pod: missing"})
        async with session.post(f"{url}/scheduler/filter", data=b"{}") as reply:
            assert reply.status == 404


async def test_only_clients_with_a_certificate_are_answered(tmp_path: Path) -> None:
    clients = CertificateAuthority.create("clients", NOW)
    (tmp_path / "clients.crt").write_bytes(clients.cert_pem)
    clients.issue_client("kube-scheduler", [], NOW).write(tmp_path / "c.crt", tmp_path / "c.key")
    tls = create_tls_context(tmp_path / "clients.crt")
    source = FolderSource(tmp_path / "own", ("127.0.0.1",))
    await CertificateWatcher("extender", source, tls).load()
    known = ssl.create_default_context(cafile=tmp_path / "own" / "ca.crt")
    known.load_cert_chain(tmp_path / "c.crt", tmp_path / "c.key")
    stranger = ssl.create_default_context(cafile=tmp_path / "own" / "ca.crt")
    async with _serve(tls) as url, aiohttp.ClientSession() as session:
        async with session.post(f"{url}/filter", data=b"{}", ssl=known) as reply:
            assert reply.status == 400
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{url}/filter", data=b"{}", ssl=stranger)
