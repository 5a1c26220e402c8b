"""Secrets that a service refers to: a gateway is closed without them, and follows their changes."""

import asyncio
import hashlib
import ssl
from datetime import UTC, datetime

import aiohttp

from kilonova.kube import Client
from kilonova.kube.serving.certificates import CertificateAuthority
from kilonova.serving.controlplane.secrets import ReferencedSecrets
from tests.kube.memory_api import MemoryApi, MemoryTransport
from tests.local.embedded_cluster import virtual_time, wait_for_condition
from tests.serving.controlplane.support.control_plane_cluster import (
    KEY,
    SECRETS,
    ControlPlaneCluster,
    control_plane_cluster,
    encode_data,
    group_of,
)
from tests.serving.controlplane.support.model_servers import Ports
from tests.serving.controlplane.support.traffic import open_session, steady_traffic

_AUTH = {"apiKeys": {"secret": "keys"}}


def _digest(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


async def test_gateway_is_closed_until_its_keys_exist_and_follows_their_changes() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports), auth=_AUTH)
        await cluster.start_server("web-main-0", ports)
        await cluster.start_gateway()
        assert cluster.control_plane is not None
        assert cluster.control_plane.configurations.list_problems(KEY) == (
            "auth.apiKeys.secret: Secret 'keys' does not exist",
        )
        await _wait_for_status(cluster, "alice-key", 503)
        await cluster.create_secret("keys", {"alice": _digest("alice-key")})
        await _wait_for_status(cluster, "alice-key", 200)
        await _wait_for_status(cluster, "guessed", 401)
        assert cluster.control_plane.configurations.list_problems(KEY) == ()
        patch = {"data": encode_data({"bob": _digest("bob-key")}) | {"alice": None}}
        await cluster.client.patch(SECRETS, "keys", patch, "default")
        await _wait_for_status(cluster, "bob-key", 200)
        await _wait_for_status(cluster, "alice-key", 401)


async def test_no_valid_key_is_refused_while_keys_are_introduced() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports))
        await cluster.start_server("web-main-0", ports)
        await cluster.create_secret("keys", {"alice": _digest("alice-key")})
        await cluster.start_gateway()
        key = ("x-api-key", "alice-key")
        async with steady_traffic(cluster.grpc_port, clients=8, metadata=(key,)) as traffic:
            for _ in range(3):
                await traffic.wait_for(20)
                await cluster.patch_service({"auth": _AUTH})
                await _wait_for_status(cluster, "guessed", 401)
                await traffic.wait_for(20)
                await cluster.patch_service({"auth": None})
                await _wait_for_status(cluster, "guessed", 200)
    assert traffic.errors == []


async def test_gateway_refuses_connections_until_its_certificate_exists() -> None:
    now = datetime.now(UTC)
    authority = CertificateAuthority.create("servers", now)
    pair = authority.issue_server(["localhost"], now)
    context = ssl.create_default_context(cadata=authority.cert_pem.decode())
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports), gateway={"tls": {"secret": "tls"}})
        await cluster.start_server("web-main-0", ports)
        await cluster.start_gateway(ready=False)
        assert cluster.control_plane is not None
        problems = cluster.control_plane.configurations.list_problems

        async def ask() -> int:
            connector = aiohttp.TCPConnector(ssl=context)
            url = f"https://localhost:{cluster.http_port}/v2/models/add"
            async with aiohttp.ClientSession(connector=connector) as session:
                try:
                    async with session.get(url) as reply:
                        return reply.status
                except aiohttp.ClientError:
                    return 0

        await cluster.wait_until_connected()
        assert await ask() == 0
        data = {"tls.crt": pair.cert_pem.decode(), "tls.key": "no key"}
        await cluster.create_secret("tls", data)
        async with asyncio.timeout(20):
            while "no valid certificate and key" not in "".join(problems(KEY)):
                await asyncio.sleep(0.01)
        assert await ask() == 0
        data["tls.key"] = pair.key_pem.decode()
        await cluster.client.patch(SECRETS, "tls", {"data": encode_data(data)}, "default")
        async with asyncio.timeout(20):
            while await ask() != 200:
                await asyncio.sleep(0.01)
        assert problems(KEY) == ()
        for kind in ("Secret", "Listener"):
            assert cluster.read_metric("kilonova_serving_rejections_total", type=kind) == 0


async def test_invalid_key_of_one_client_is_left_out_and_reported() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_secret("keys", {"alice": _digest("alice-key"), "bob": "bob-key"})
        await cluster.create_service(group_of(ports), auth=_AUTH)
        await cluster.start_server("web-main-0", ports)
        await cluster.start_gateway()
        await _wait_for_status(cluster, "alice-key", 200)
        await _wait_for_status(cluster, "bob-key", 401)
        assert cluster.control_plane is not None
        (problem,) = cluster.control_plane.configurations.list_problems(KEY)
        assert problem.startswith("auth.apiKeys.secret: key 'bob' of Secret 'keys' is left out")
        assert "bob-key" not in problem


async def test_name_that_no_secret_has_closes_one_gateway_and_stops_nothing() -> None:
    """A service that was not validated must not disturb the others."""
    async with control_plane_cluster(running=False) as cluster:
        secrets = ReferencedSecrets(cluster.client, lambda _: None, poll_seconds=0.1)
        await cluster.create_secret("one", {"a": "1"})
        names = frozenset({"one", "../x"})
        secrets.refer(KEY, names)
        await secrets.read_due()
        found = secrets.refer(KEY, names)
        assert found["one"] == encode_data({"a": "1"})
        assert str(found["../x"]).startswith("cannot exist: its name must consist of lower case")


async def test_only_referenced_secrets_are_read() -> None:
    async with control_plane_cluster(running=False) as cluster:
        changed: list[tuple[str, str]] = []
        secrets = ReferencedSecrets(cluster.client, changed.append, poll_seconds=0.1)
        await cluster.create_secret("one", {"a": "1"})
        assert secrets.refer(KEY, frozenset({"one", "two"})) == {}
        await secrets.read_due()
        assert secrets.refer(KEY, frozenset({"one", "two"})) == {
            "one": encode_data({"a": "1"}),
            "two": "does not exist",
        }
        assert changed == [KEY, KEY]
        assert secrets.refer(KEY, frozenset({"two"})) == {"two": "does not exist"}
        assert secrets.refer(KEY, frozenset({"one", "two"})) == {"two": "does not exist"}


@virtual_time
async def test_secret_that_cannot_be_read_for_a_while_stays_in_use() -> None:
    api = MemoryApi()
    client = Client(MemoryTransport(api))
    secrets = ReferencedSecrets(client, lambda key: None, poll_seconds=0.1)
    path = "/api/v1/namespaces/default/secrets/one"
    metadata = {"name": "one", "uid": "1", "resourceVersion": "1"}
    api.objects[path] = {"metadata": metadata, "data": {"a": "MQ=="}}
    secrets.refer(KEY, frozenset({"one"}))
    await secrets.read_due()
    api.refuse["GET"] = (500, "InternalError")
    await asyncio.sleep(0.15)
    await secrets.read_due()
    assert secrets.refer(KEY, frozenset({"one"})) == {"one": {"a": "MQ=="}}


async def _wait_for_status(cluster: ControlPlaneCluster, key: str, status: int) -> None:
    async with open_session(cluster.http_port) as session:

        async def is_answered() -> bool:
            async with session.post(
                "/v2/models/add/infer", json={}, headers={"x-api-key": key}
            ) as response:
                return response.status == status

        await wait_for_condition(is_answered, within=10, every=0.02)
