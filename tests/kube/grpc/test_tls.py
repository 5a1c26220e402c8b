"""TLS of gRPC: live certificates on both sides, mutual TLS."""

import asyncio
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

import grpc
import grpc.aio
import pytest

from kilonova.kube.grpc import ClientSettings, ClientTls, GrpcClient, LiveServerCredentials
from kilonova.kube.serving.certificate_sources import FileSource
from kilonova.kube.serving.certificate_watcher import CertificateWatcher
from kilonova.kube.serving.certificates import CertificateAuthority
from tests.kube.grpc.echo import Echo, EchoRequest, EchoStub, serving

NOW = datetime.now(UTC)
HELLO = EchoRequest(text="hello")
ONCE = ClientSettings(attempts=1, deadline=60)


class Certificates:
    """A CA and a serving certificate as files, and how they are renewed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = FileSource(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
        self.renew()

    def renew(self) -> None:
        """Replace the CA and the certificate."""
        self.authority = CertificateAuthority.create("test", NOW)
        self.pair = self.authority.issue_server(["localhost"], NOW)
        self.pair.write(self.source.cert, self.source.key)
        self.source.ca.write_bytes(self.authority.cert_pem)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


async def test_server_and_client_follow_renewed_certificates(certificates: Certificates) -> None:
    credentials, clock = LiveServerCredentials(), Clock()
    watcher = CertificateWatcher("echo", certificates.source, credentials)
    await watcher.load()
    tls = ClientTls(ca=certificates.source.ca)
    async with (
        serving(Echo(), credentials=credentials) as (server, target),
        GrpcClient(target, tls=tls, monotonic=clock) as client,
    ):
        stub = client.stub(EchoStub)
        assert (await stub.say(HELLO)).text == "hello"
        assert client.stub(EchoStub) is stub
        certificates.renew()
        await watcher.check()
        assert await read_certificate(server.bind()) == certificates.pair.cert_pem.strip()
        assert (await stub.say(HELLO)).text == "hello", "an open connection continues"
        clock.now += 61
        renewed = client.stub(EchoStub)
        assert renewed is not stub
        assert (await renewed.say(HELLO)).text == "hello"


async def test_unusable_certificate_is_not_served(certificates: Certificates) -> None:
    credentials = LiveServerCredentials()
    watcher = CertificateWatcher("echo", certificates.source, credentials)
    await watcher.load()
    before = certificates.pair
    async with serving(Echo(), credentials=credentials) as (server, _):
        certificates.source.cert.write_bytes(b"not a certificate")
        await watcher.check()
        assert await read_certificate(server.bind()) == before.cert_pem.strip()


async def test_server_without_a_certificate_does_not_start() -> None:
    with pytest.raises(ValueError, match=r"await CertificateWatcher.load\(\) first"):
        LiveServerCredentials().build()


async def test_client_does_not_trust_another_ca(certificates: Certificates, tmp_path: Path) -> None:
    credentials = LiveServerCredentials()
    await CertificateWatcher("echo", certificates.source, credentials).load()
    other = tmp_path / "other.crt"
    other.write_bytes(CertificateAuthority.create("other", NOW).cert_pem)
    async with (
        serving(Echo(), credentials=credentials) as (_, target),
        GrpcClient(target, tls=ClientTls(ca=other), settings=ONCE) as client,
    ):
        await expect_unavailable(client)


async def test_mutual_tls_admits_only_known_clients(
    certificates: Certificates, tmp_path: Path
) -> None:
    clients_ca = tmp_path / "clients.crt"
    known, cert, key = write_client(tmp_path, "known")
    clients_ca.write_bytes(known.cert_pem)
    credentials, echo = LiveServerCredentials(clients_ca), Echo()
    await CertificateWatcher("echo", certificates.source, credentials).load()
    ca = certificates.source.ca
    async with serving(echo, credentials=credentials) as (_, target):
        async with GrpcClient(target, tls=ClientTls(ca, cert, key)) as client:
            assert (await client.stub(EchoStub).say(HELLO)).text == "hello"
            assert echo.identities == ["known"]
        async with GrpcClient(target, tls=ClientTls(ca), settings=ONCE) as anonymous:
            await expect_unavailable(anonymous)
        new, new_cert, new_key = write_client(tmp_path, "new")
        async with GrpcClient(
            target, tls=ClientTls(ca, new_cert, new_key), settings=ONCE
        ) as stranger:
            await expect_unavailable(stranger)
        clients_ca.write_bytes(known.cert_pem + new.cert_pem)
        os.utime(clients_ca, (1, 1))  # however coarse the clock of the file system is
        async with GrpcClient(target, tls=ClientTls(ca, new_cert, new_key)) as admitted:
            assert (await admitted.stub(EchoStub).say(HELLO)).text == "hello"


def test_client_certificate_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs both cert and key"):
        ClientTls(cert=tmp_path / "tls.crt")


def write_client(folder: Path, name: str) -> tuple[CertificateAuthority, Path, Path]:
    authority = CertificateAuthority.create(f"{name} clients", NOW)
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    authority.issue_client(name, [], NOW).write(cert, key)
    return authority, cert, key


async def expect_unavailable(client: GrpcClient) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client.stub(EchoStub).say(HELLO)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE


async def read_certificate(port: int) -> bytes:
    pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    return pem.strip().encode()
