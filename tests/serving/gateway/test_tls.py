"""TLS of both ports: certificates that change, and clients that prove who they are by one."""

import ssl
from datetime import UTC, datetime

import aiohttp
import grpc
import grpc.aio

from kilonova.api.serving import (
    Gateway,
    GatewayTls,
    HeaderMatch,
    Limits,
    RateLimit,
    Route,
    RouteBackend,
)
from kilonova.kube.serving.certificates import CertificateAuthority, KeyPair
from kilonova.serving.gateway.config import render_gateway
from kilonova.serving.gateway.model import GatewaySecrets, TlsMaterial
from tests.serving.gateway.support.clients import SERVICE, open_session
from tests.serving.gateway.support.envoy_gateway import KEY, run_gateway
from tests.serving.gateway.support.services import (
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until_answer

NOW = datetime.now(UTC)
PATH = "/v2/models/m"
TLS = GatewayTls(secret="tls")
MUTUAL = GatewayTls(secret="tls", client_ca_secret="clients")


def build_secrets(pair: KeyPair, clients: CertificateAuthority | None = None) -> GatewaySecrets:
    client_ca = clients.cert_pem.decode() if clients else ""
    return GatewaySecrets(tls=TlsMaterial(pair.cert_pem.decode(), pair.key_pem.decode(), client_ca))


async def get(gateway: Gateway, context: ssl.SSLContext) -> int | str:
    """The status, or what went wrong with TLS."""
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            async with session.get(f"https://localhost:{gateway.http_port}{PATH}") as reply:
                return reply.status
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError):
            return "not trusted"
        except aiohttp.ClientError:
            return "refused"


def trust(authority: CertificateAuthority, pair: KeyPair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.cert_pem.decode())
    if pair is not None:
        pair.load_into(context)
    return context


async def test_renewed_certificate_is_used_without_a_new_listener():
    old, new = (CertificateAuthority.create(name, NOW) for name in ("old", "new"))
    async with run_upstream() as upstream:
        spec = build_spec(gateway=build_gateway(tls=TLS))

        def build(authority: CertificateAuthority):
            secrets = build_secrets(authority.issue_server(["localhost"], NOW))
            return build_state([upstream.endpoint], secrets=secrets)

        async with run_gateway(spec, build(old)) as gateway:
            assert await get(spec.gateway, trust(old)) == 200
            assert await get(spec.gateway, trust(new)) == "not trusted"
            gateway.apply(spec, build(new))
            await wait_until_answer(lambda: get(spec.gateway, trust(new)), 200)
            assert await get(spec.gateway, trust(old)) == "not trusted"
            assert await gateway.read_stat("listener_manager.listener_modified") == 0

            credentials = grpc.ssl_channel_credentials(new.cert_pem)
            target = f"localhost:{spec.gateway.grpc_port}"
            async with grpc.aio.secure_channel(target, credentials) as channel:
                assert await channel.unary_unary(f"{SERVICE}/ModelInfer")(b"") == b"main-0"
            async with open_session(spec.gateway.http_port) as plain:
                try:
                    async with plain.get(PATH) as reply:
                        assert reply.status >= 400, "plain text is not served"
                except aiohttp.ClientError:
                    pass


async def test_clients_need_a_certificate_and_are_known_by_its_subject():
    authority, clients, others = (
        CertificateAuthority.create(name, NOW) for name in ("servers", "clients", "others")
    )
    async with run_upstream() as upstream:
        spec = build_spec(
            gateway=build_gateway(tls=MUTUAL),
            limits=Limits(requests=RateLimit(per_minute=1, burst=2)),
        )
        secrets = build_secrets(authority.issue_server(["localhost"], NOW), clients)
        state = build_state([upstream.endpoint], secrets=secrets)
        async with run_gateway(spec, state):
            assert await get(spec.gateway, trust(authority)) == "refused"
            forged = others.issue_client("alice", ["team"], NOW)
            assert await get(spec.gateway, trust(authority, forged)) == "refused"
            assert upstream.received == []
            for name in ("alice", "bob"):
                context = trust(authority, clients.issue_client(name, ["team"], NOW))
                statuses = [await get(spec.gateway, context) for _ in range(3)]
                assert statuses == [200, 200, 429], "the limit of each client"
            names = [each.headers["x-kilonova-client"] for each in upstream.received]
            assert names == ["CN=alice,O=team"] * 2 + ["CN=bob,O=team"] * 2


async def test_route_may_depend_on_the_subject_of_a_certificate():
    servers, clients = (CertificateAuthority.create(name, NOW) for name in ("servers", "clients"))
    async with run_upstream() as main, run_upstream("other-0") as other:
        header = HeaderMatch(name="x-kilonova-client", value="CN=bob,O=team")
        spec = build_spec(
            build_group(),
            build_group("other"),
            routes=(Route(headers=(header,), backends=(RouteBackend("other"),)),),
            gateway=build_gateway(tls=MUTUAL),
        )
        secrets = build_secrets(servers.issue_server(["localhost"], NOW), clients)
        endpoints = {"main": (main.endpoint,), "other": (other.endpoint,)}
        async with run_gateway(spec, build_state(endpoints, secrets=secrets)):
            for name in ("alice", "bob"):
                context = trust(servers, clients.issue_client(name, ["team"], NOW))
                assert await get(spec.gateway, context) == 200
            assert (len(main.received), len(other.received)) == (1, 1)


def test_without_its_certificate_the_listener_still_wants_tls():
    missing = GatewaySecrets(problems=("Secret tls not found",))
    spec = build_spec(gateway=build_gateway(tls=MUTUAL))
    config = render_gateway(KEY, spec, build_state(secrets=missing))
    chain = config.listeners["gateway"]["filter_chains"][0]
    assert chain["transport_socket"]["typed_config"]["require_client_certificate"] is True
    assert config.secrets == {}
