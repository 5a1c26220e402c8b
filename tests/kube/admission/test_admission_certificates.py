"""Certificates of the admission server: created, stored, renewed before expiry, reloaded live."""

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import msgspec
import pytest
from cryptography import x509

from kilonova.kube.admission import (
    AdmissionRequest,
    AdmissionServer,
    Allowed,
    FileSource,
    FolderSource,
    SecretSource,
    ensure_ca_bundle,
    service_names,
)
from kilonova.kube.client.client import Client
from kilonova.kube.client.errors import ConnectionFailed
from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.serving.certificate_sources import StoredCertificates, renew_if_due
from kilonova.kube.serving.certificates import CertificateAuthority, KeyPair
from tests.kube.memory_api import MemoryApi, MemoryTransport

NOW = datetime.now(UTC)
NAMES = ["127.0.0.1", "localhost"]


def days(number: int) -> timedelta:
    return timedelta(days=number)


# --- when certificates are renewed


def test_certificate_is_kept_before_renewal_is_due():
    stored = renew_if_due(None, NAMES, NOW)
    assert renew_if_due(stored, NAMES, NOW + days(290)) is stored


def test_certificate_is_renewed_by_the_same_ca_before_expiry():
    stored = renew_if_due(None, NAMES, NOW)
    later = renew_if_due(stored, NAMES, NOW + days(300))
    assert later.cert_pem != stored.cert_pem
    assert (later.ca_pem, later.ca_key_pem) == (stored.ca_pem, stored.ca_key_pem)


def test_certificate_is_reissued_for_added_names_only():
    stored = renew_if_due(None, NAMES, NOW)
    assert renew_if_due(stored, [*NAMES, "x.svc"], NOW).cert_pem != stored.cert_pem
    assert renew_if_due(stored, NAMES[:1], NOW) is stored


def test_replaced_ca_is_trusted_until_expiry():
    stored = renew_if_due(None, NAMES, NOW)
    later = renew_if_due(stored, NAMES, NOW + days(3000))
    new, old = x509.load_pem_x509_certificates(later.ca_pem)
    assert old == x509.load_pem_x509_certificate(stored.ca_pem)
    x509.load_pem_x509_certificate(later.cert_pem).verify_directly_issued_by(new)
    at_last = renew_if_due(later, NAMES, NOW + days(3700))
    assert x509.load_pem_x509_certificates(at_last.ca_pem) == [new]


def test_certificate_of_another_ca_is_replaced():
    stored, foreign = renew_if_due(None, NAMES, NOW), renew_if_due(None, NAMES, NOW)
    mixed = StoredCertificates(stored.ca_pem, stored.ca_key_pem, foreign.cert_pem, foreign.key_pem)
    assert renew_if_due(mixed, NAMES, NOW).cert_pem != foreign.cert_pem


def test_service_names_include_the_cluster_domain():
    assert service_names("hooks", "kilonova")[0] == "hooks.kilonova.svc"


# --- where they are stored


async def test_folder_source_files_are_readable_by_owner_only(tmp_path):
    source = FolderSource(tmp_path / "deep" / "folder", NAMES)
    first = await source.current(NOW)
    assert await source.current(NOW) == first
    assert sorted(path.name for path in source.folder.iterdir()) == [
        "ca.crt",
        "ca.key",
        "tls.crt",
        "tls.key",
    ]
    assert (source.folder / "tls.key").stat().st_mode & 0o777 == 0o600
    assert (await source.current(NOW + days(300))).ca_pem == first.ca_pem


@pytest.mark.parametrize("broken", ["ca.key", "ca.crt", "tls.crt"])
async def test_mismatched_files_are_recreated(tmp_path, broken):
    source = FolderSource(tmp_path, NAMES)
    await source.current(NOW)
    other = renew_if_due(None, NAMES, NOW)
    content = {"ca.key": other.ca_key_pem, "ca.crt": b"", "tls.crt": b"no PEM"}[broken]
    (tmp_path / broken).write_bytes(content)
    mended = await source.current(NOW)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    mended.pair.write(tmp_path / "a", tmp_path / "b")
    context.load_cert_chain(tmp_path / "a", tmp_path / "b")
    assert await source.current(NOW) == mended


async def test_replicas_sharing_a_secret_agree_on_certificates():
    api = MemoryApi()
    links = [MemoryTransport(api, from_server=0.01), MemoryTransport(api, to_server=0.005)]
    sources = [SecretSource(Client(link), "tls", "system", NAMES) for link in links]
    one, two = await asyncio.gather(*(source.current(NOW) for source in sources))
    assert one == two
    assert len(api.writes) == 1
    one, two = await asyncio.gather(*(s.current(NOW + days(300)) for s in sources))
    assert one == two
    assert len(api.writes) == 2
    secret = api.objects["/api/v1/namespaces/system/secrets/tls"]
    assert secret["type"] == "kubernetes.io/tls"
    assert base64.b64decode(secret["data"]["tls.crt"]) == one.pair.cert_pem


async def test_other_keys_of_the_secret_are_preserved():
    api = MemoryApi()
    path = "/api/v1/namespaces/system/secrets/tls"
    api.objects[path] = {"metadata": {"name": "tls", "resourceVersion": "0"}, "data": {"x": "eA=="}}
    await SecretSource(Client(MemoryTransport(api)), "tls", "system", NAMES).current(NOW)
    assert api.objects[path]["data"]["x"] == "eA=="
    assert api.objects[path]["data"]["ca.crt"]


async def test_secret_with_invalid_certificates_is_not_overwritten():
    api = MemoryApi()
    data = dict.fromkeys(["ca.crt", "ca.key", "tls.crt", "tls.key"], "bm8=")
    path = "/api/v1/namespaces/system/secrets/tls"
    api.objects[path] = {"metadata": {"name": "tls", "resourceVersion": "0"}, "data": data}
    with pytest.raises(ValueError, match=r"Secret system/tls are invalid: .*; delete it"):
        await SecretSource(Client(MemoryTransport(api)), "tls", "system", NAMES).current(NOW)
    assert api.writes == []


# --- the live server


async def allow(review: AdmissionRequest) -> Allowed:
    return Allowed()


REVIEW = msgspec.json.encode(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u", "operation": "CREATE", "object": {}},
    }
)


class WebhookCaller:
    """Calls continuously, every other time on a new connection."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self.url = f"https://127.0.0.1:{port}/allow"
        self.context = context
        self.answered = 0

    async def call(self, http: aiohttp.ClientSession) -> None:
        headers = {"connection": "close"} if self.answered % 2 else {}
        async with http.post(self.url, data=REVIEW, ssl=self.context, headers=headers) as reply:
            assert reply.status == 200
            assert b'"allowed":true' in await reply.read()
        self.answered += 1

    async def call_until(self, http: aiohttp.ClientSession, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self.call(http)

    async def certificate(self) -> bytes:
        host, _, port = self.url.removeprefix("https://").removesuffix("/allow").partition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=self.context)
        peer_certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return peer_certificate


async def test_certificate_and_ca_renewals_fail_no_request(tmp_path):
    # A CA near its expiry, and a certificate of it that is due, both valid today.
    aged = renew_if_due(renew_if_due(None, NAMES, NOW - days(3100)), NAMES, NOW - days(300))
    KeyPair(aged.ca_pem, aged.ca_key_pem).write(tmp_path / "ca.crt", tmp_path / "ca.key")
    aged.serving_certificate.pair.write(tmp_path / "tls.crt", tmp_path / "tls.key")
    wall = NOW - days(300)
    context = ssl.create_default_context(cadata=aged.ca_pem.decode())
    published: list[bytes] = []

    async def publish(ca_pem: bytes) -> None:
        published.append(ca_pem)
        context.load_verify_locations(cadata=ca_pem.decode())

    server = AdmissionServer(
        {"/allow": allow},
        FolderSource(tmp_path, NAMES),
        host="127.0.0.1",
        port=0,
        publish=publish,
        wall=lambda: wall,
    )
    caller = WebhookCaller(server.bind(), context)
    running = asyncio.create_task(server.run())
    stop = asyncio.Event()
    async with aiohttp.ClientSession() as http:
        calling = [asyncio.create_task(caller.call_until(http, stop)) for _ in range(4)]
        before = await caller.certificate()
        wall = NOW
        await server.certificate.check()
        answered = caller.answered
        after = await caller.certificate()
        while caller.answered < answered + 40:
            await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*calling)
    server.stop()
    await running
    assert before != after
    assert len(x509.load_pem_x509_certificates(server.ca_pem)) == 2
    assert published[-1] == server.ca_pem


async def test_renewed_files_are_reloaded_unless_invalid(tmp_path):
    authority = CertificateAuthority.create("theirs", NOW)
    files = FileSource(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    files.ca.write_bytes(authority.cert_pem)
    first, second = (authority.issue_server(NAMES, NOW) for _ in range(2))
    first.write(files.cert, files.key)
    server = AdmissionServer({"/allow": allow}, files, host="127.0.0.1", port=0)
    context = ssl.create_default_context(cadata=authority.cert_pem.decode())
    caller = WebhookCaller(server.bind(), context)
    running = asyncio.create_task(server.run())
    before = await caller.certificate()
    for mismatched_or_invalid in (second.cert_pem, b"no PEM"):
        files.cert.write_bytes(mismatched_or_invalid)
        await server.certificate.check()
        assert await caller.certificate() == before
    files.cert.write_bytes(second.cert_pem)
    files.key.write_bytes(second.key_pem)
    await server.certificate.check()
    assert await caller.certificate() == ssl.PEM_cert_to_DER_cert(second.cert_pem.decode())
    server.stop()
    await running


async def test_new_certificate_is_not_served_before_its_ca_is_published(tmp_path):
    wall = NOW - days(300)
    await FolderSource(tmp_path, NAMES).current(wall)
    reachable = False

    async def publish(ca_pem: bytes) -> None:
        if not reachable:
            raise ConnectionFailed("away")

    server = AdmissionServer(
        {"/allow": allow},
        FolderSource(tmp_path, NAMES),
        host="127.0.0.1",
        port=0,
        publish=publish,
        wall=lambda: wall,
    )
    ca = (tmp_path / "ca.crt").read_text()
    caller = WebhookCaller(server.bind(), ssl.create_default_context(cadata=ca))
    running = asyncio.create_task(server.run())
    before = await caller.certificate()
    wall = NOW
    await server.certificate.check()
    assert await caller.certificate() == before
    reachable = True
    await server.certificate.check()
    assert await caller.certificate() != before
    server.stop()
    await running


async def test_server_without_a_certificate_does_not_start(tmp_path: Path):
    files = FileSource(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    server = AdmissionServer({"/allow": allow}, files, host="127.0.0.1", port=0)
    with pytest.raises(FileNotFoundError):
        await server.run()


# --- publishing the CA bundle


class FakeConfigurationsApi:
    """One configuration of each kind, with strategic merge patches of webhooks."""

    def __init__(self, bundles: dict[str, str | None]) -> None:
        self.bundles = bundles
        self.patches: list[Request] = []

    async def send(self, request: Request) -> Reply:
        if "validating" in request.path:
            return Reply(404, b'{"kind":"Status","code":404,"reason":"NotFound"}')
        if request.method == "PATCH":
            self.patches.append(request)
            for webhook in msgspec.json.decode(request.body)["webhooks"]:
                self.bundles[webhook["name"]] = webhook["clientConfig"]["caBundle"]
        webhooks = [
            {"name": name, "clientConfig": {"caBundle": bundle} if bundle else {}}
            for name, bundle in self.bundles.items()
        ]
        return Reply(200, msgspec.json.encode({"webhooks": webhooks}))

    def stream(self, request: Request):
        raise NotImplementedError

    async def close(self) -> None: ...


async def test_ca_bundle_is_written_only_where_missing():
    expected = base64.b64encode(b"ours").decode()
    configurations = FakeConfigurationsApi({"a": None, "b": "old", "c": expected})
    client = Client(configurations)
    assert await ensure_ca_bundle(client, "hooks", b"ours")
    assert configurations.bundles == dict.fromkeys("abc", expected)
    (patch,) = configurations.patches
    assert patch.headers["content-type"] == "application/strategic-merge-patch+json"
    assert msgspec.json.decode(patch.body) == {
        "webhooks": [{"name": name, "clientConfig": {"caBundle": expected}} for name in "ab"]
    }
    assert await ensure_ca_bundle(client, "hooks", b"ours")
    assert len(configurations.patches) == 1


async def test_missing_webhook_configuration_is_not_an_error():
    assert not await ensure_ca_bundle(Client(MemoryTransport(MemoryApi())), "hooks", b"ours")
