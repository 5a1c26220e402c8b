"""A request needs a valid key or token before anything else happens to it."""

import base64
import hashlib
import json

import aiohttp
import grpc
from msgspec.structs import replace

from kilonova.api.serving import (
    ApiKeys,
    Auth,
    HeaderMatch,
    InferenceServiceSpec,
    JwtProvider,
    Route,
    RouteBackend,
    SecretKey,
)
from kilonova.serving.gateway.config.routing.refusals import CLOSED_MESSAGE
from kilonova.serving.gateway.model import GatewaySecrets
from tests.harness.server_process import find_free_port
from tests.serving.gateway.support.clients import open_channel, open_session, try_call
from tests.serving.gateway.support.control_plane import run_control_plane
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.tokens import ISSUER, Issuer, run_issuer
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until_answer

KEY, OTHER_KEY = "kn-" + "a" * 40, "kn-" + "b" * 200
SECRETS = GatewaySecrets(
    api_keys=tuple(
        (client, hashlib.sha256(key.encode()).hexdigest())
        for client, key in (("team-a", KEY), ("team-b", OTHER_KEY))
    )
)
KEYS = ApiKeys(secret="keys")
OK, UNAUTHENTICATED = grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED
PATH = "/v2/models/m"


def build_secured(auth: Auth) -> InferenceServiceSpec:
    return build_spec(auth=auth, gateway=build_gateway())


SSO = JwtProvider(
    name="sso",
    issuer=ISSUER,
    audiences=("inference", "batch"),
    jwks_secret=SecretKey("jwks"),
)


async def get(session: aiohttp.ClientSession, **headers: str) -> tuple[int, str]:
    """Status and error, or the answer."""
    async with session.get(PATH, headers=headers) as reply:
        if reply.content_type == "application/json":
            return reply.status, (await reply.json())["error"]
        return reply.status, await reply.text()


async def test_api_key_opens_and_stays_in_the_gateway():
    async with run_upstream() as upstream:
        spec = build_secured(Auth(api_keys=KEYS))
        state = build_state([upstream.endpoint], secrets=SECRETS)
        async with (
            run_gateway(spec, state) as gateway,
            open_session(spec.gateway.http_port) as session,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            assert await get(session) == (401, "an API key is missing"), gateway.read_log()
            assert await get(session, authorization="Basic abc") == (401, "an API key is missing")
            wrong = (401, "the API key is not valid")
            assert await get(session, authorization="Bearer wrong") == wrong
            assert await get(session, **{"x-api-key": KEY + "x"}) == wrong
            assert await get(session, **{"x-api-key": "x" * 5000}) == wrong
            digest = SECRETS.api_keys[0][1]
            assert await get(session, **{"x-api-key": digest}) == wrong
            assert await try_call(channel) == (UNAUTHENTICATED, "an API key is missing")
            assert upstream.received == []

            assert await get(session, authorization=f"Bearer {KEY}") == (200, "main-0")
            assert await get(session, **{"x-api-key": OTHER_KEY}) == (200, "main-0")
            bearer = [("authorization", f"Bearer {KEY}"), ("x-kilonova-client", "root")]
            assert await try_call(channel, metadata=bearer) == (OK, "main-0")
            clients = [dict_of(each.headers)["x-kilonova-client"] for each in upstream.received]
            assert clients == ["team-a", "team-b", "team-a"]
            assert not any(
                {"authorization", "x-api-key"} & dict_of(each.headers).keys()
                for each in upstream.received
            )

            fewer = GatewaySecrets(api_keys=SECRETS.api_keys[1:])
            gateway.apply(spec, build_state([upstream.endpoint], secrets=fewer))
            await wait_until_answer(lambda: get(session, **{"x-api-key": KEY}), wrong)
            assert await get(session, **{"x-api-key": OTHER_KEY}) == (200, "main-0")
            assert await gateway.read_stat("listener_manager.listener_modified") == 0


def dict_of(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


async def test_route_may_depend_on_the_client_of_a_key():
    async with run_upstream("main-0") as main, run_upstream("other-0") as other:
        header = HeaderMatch(name="x-kilonova-client", value="team-b")
        route = Route(headers=(header,), backends=(RouteBackend("other"),))
        spec = build_spec(
            build_group(),
            build_group("other"),
            auth=Auth(api_keys=KEYS),
            routes=(route,),
            gateway=build_gateway(),
        )
        endpoints = {"main": (main.endpoint,), "other": (other.endpoint,)}
        async with (
            run_gateway(spec, build_state(endpoints, secrets=SECRETS)),
            open_session(spec.gateway.http_port) as session,
        ):
            assert await get(session, **{"x-api-key": KEY}) == (200, "main-0")
            assert await get(session, **{"x-api-key": OTHER_KEY}) == (200, "other-0")


async def test_route_may_depend_on_the_client_of_a_token():
    issuer = Issuer()
    async with run_upstream() as main, run_control_plane() as control_plane:
        control_plane.release()
        header = HeaderMatch(name="x-kilonova-client", value="bob")
        spec = build_spec(
            build_group(),
            build_group("other"),
            auth=Auth(jwt=(SSO,)),
            routes=(Route(headers=(header,), backends=(RouteBackend("other"),)),),
            gateway=build_gateway(),
        )
        state = build_state(
            [main.endpoint],
            secrets=GatewaySecrets(jwks=(("sso", issuer.jwks),)),
            control_plane=control_plane.address,
            starting=frozenset({"other"}),
        )
        async with run_gateway(spec, state), open_session(spec.gateway.http_port) as session:
            alice, bob = (f"Bearer {issuer.sign(sub=each)}" for each in ("alice", "bob"))
            assert await get(session, authorization=alice) == (200, "main-0")
            assert control_plane.checks == []
            await get(session, authorization=bob)
            assert len(control_plane.checks) == 1, "held until the other group has a server"
            assert len(main.received) == 1


async def test_no_credential_reaches_a_server():
    issuer = Issuer()
    async with run_upstream() as upstream:
        spec = build_secured(Auth(jwt=(SSO,), api_keys=KEYS))
        secrets = GatewaySecrets(api_keys=SECRETS.api_keys, jwks=(("sso", issuer.jwks),))
        only_keys = build_secured(Auth(api_keys=KEYS))
        bearers = (KEY, OTHER_KEY, issuer.sign(), issuer.sign(audience="else"))
        for each, tokens in ((spec, bearers), (only_keys, bearers[:2])):
            state = build_state([upstream.endpoint], secrets=secrets)
            async with run_gateway(each, state), open_session(each.gateway.http_port) as session:
                for token in tokens:
                    both = {"x-api-key": KEY, "authorization": f"Bearer {token}"}
                    assert await get(session, **both) == (200, "main-0")
                    received = dict_of(upstream.received[-1].headers)
                    assert not {"authorization", "x-api-key"} & received.keys(), token
                if each is only_keys:
                    # What is no key of the gateway may be one of the server.
                    other = {"x-api-key": KEY, "authorization": "Bearer of-the-server"}
                    assert await get(session, **other) == (200, "main-0")
                    received = dict_of(upstream.received[-1].headers)
                    assert received["authorization"] == "Bearer of-the-server"
                    assert "x-api-key" not in received


async def test_keys_may_be_in_the_authorization_header_alone():
    async with run_upstream() as upstream:
        spec = build_secured(Auth(api_keys=replace(KEYS, header="Authorization")))
        state = build_state([upstream.endpoint], secrets=SECRETS)
        async with run_gateway(spec, state), open_session(spec.gateway.http_port) as session:
            for value in (f"Bearer {KEY}", KEY):
                assert await get(session, authorization=value) == (200, "main-0")
            assert (await get(session, **{"x-api-key": KEY}))[0] == 401
            assert "authorization" not in dict_of(upstream.received[-1].headers)


async def test_token_in_a_query_does_not_count():
    issuer = Issuer()
    async with run_upstream() as upstream:
        spec = build_secured(Auth(jwt=(SSO,)))
        secrets = GatewaySecrets(jwks=(("sso", issuer.jwks),))
        state = build_state([upstream.endpoint], secrets=secrets)
        async with run_gateway(spec, state), open_session(spec.gateway.http_port) as session:
            query = {"access_token": issuer.sign()}
            async with session.get(PATH, params=query) as reply:
                assert reply.status == 401
            assert upstream.received == []


async def test_digest_is_sha256_at_any_length():
    keys = [("0123456789" * 100)[:length] for length in (1, 54, 55, 56, 63, 64, 65, 119, 120, 1000)]
    digests = tuple((f"c{len(key)}", hashlib.sha256(key.encode()).hexdigest()) for key in keys)
    async with run_upstream() as upstream:
        spec = build_secured(Auth(api_keys=KEYS))
        state = build_state([upstream.endpoint], secrets=GatewaySecrets(api_keys=digests))
        async with run_gateway(spec, state), open_session(spec.gateway.http_port) as session:
            for key in keys:
                assert await get(session, **{"x-api-key": key}) == (200, "main-0"), len(key)


async def test_token_of_any_audience_opens_and_any_other_does_not():
    issuer = Issuer()
    async with run_upstream() as upstream:
        spec = build_secured(Auth(jwt=(SSO,)))
        secrets = GatewaySecrets(jwks=(("sso", issuer.jwks),))
        state = build_state([upstream.endpoint], secrets=secrets)
        async with (
            run_gateway(spec, state),
            open_session(spec.gateway.http_port) as session,
            open_channel(spec.gateway.grpc_port) as channel,
        ):

            async def ask(token: str) -> int:
                return (await get(session, authorization=f"Bearer {token}"))[0]

            assert await ask(issuer.sign(audience="inference")) == 200
            assert await ask(issuer.sign(audience="batch")) == 200
            assert await ask(issuer.sign(audience=["x", "batch"])) == 200
            assert await ask(issuer.sign(audience="inference batch")) == 403
            assert await ask(issuer.sign(audience="else")) == 403
            assert await ask(issuer.sign(lifetime=-60)) == 401
            assert await ask(issuer.sign(forged=True)) == 401
            assert await ask(issuer.sign(issuer="https://else.example.com/")) == 401
            unsigned = issuer.sign().rpartition(".")[0] + "."
            assert await ask(unsigned) == 401
            payload = issuer.sign().split(".")[1]
            for algorithm in ("none", "None", "HS256"):
                head = json.dumps({"alg": algorithm, "typ": "JWT"}).encode()
                header = base64.urlsafe_b64encode(head).decode().rstrip("=")
                assert await ask(f"{header}.{payload}.") == 401
                assert await ask(f"{header}.{payload}.c2lnbmF0dXJl") == 401
            assert await get(session) == (401, "Jwt is missing")
            assert await try_call(channel) == (UNAUTHENTICATED, "Jwt is missing")
            bearer = [("authorization", f"Bearer {issuer.sign(sub='bob')}")]
            assert await try_call(channel, metadata=bearer) == (OK, "main-0")
            last = dict_of(upstream.received[-1].headers)
            assert last["x-kilonova-client"] == "bob"
            assert "authorization" not in last


async def test_several_providers_and_keys_are_alternatives():
    first, second = Issuer(), Issuer()
    async with run_upstream() as upstream:
        providers = (
            SSO,
            replace(SSO, name="other", issuer="https://other/", client_claim="client_id"),
        )
        spec = build_secured(Auth(jwt=providers, api_keys=KEYS))
        secrets = GatewaySecrets(
            api_keys=SECRETS.api_keys, jwks=(("sso", first.jwks), ("other", second.jwks))
        )
        async with (
            run_gateway(spec, build_state([upstream.endpoint], secrets=secrets)),
            open_session(spec.gateway.http_port) as session,
        ):
            tokens = [first.sign(), second.sign(issuer="https://other/", client_id="robot"), KEY]
            for token in tokens:
                assert await get(session, authorization=f"Bearer {token}") == (200, "main-0")
            clients = [dict_of(each.headers)["x-kilonova-client"] for each in upstream.received]
            assert clients == ["alice", "robot", "team-a"]
            assert (await get(session, authorization="Bearer wrong"))[0] == 401
            assert (await get(session))[0] == 401
            assert (await get(session, **{"x-kilonova-client": "root"}))[0] == 401


async def test_fetched_keys_are_kept_while_the_issuer_is_away():
    port = find_free_port()
    async with run_upstream() as upstream:
        provider = replace(SSO, jwks_secret=None, jwks_uri=f"http://127.0.0.1:{port}/keys")
        spec = build_secured(Auth(jwt=(provider,)))
        async with run_issuer(port) as issuer:
            token = f"Bearer {issuer.sign()}"
            gateway_context = run_gateway(spec, build_state([upstream.endpoint]))
            gateway = await gateway_context.__aenter__()
        async with open_session(spec.gateway.http_port) as session:
            assert await get(session, authorization=token) == (200, "main-0")
        assert gateway.process.is_running()
        await gateway_context.__aexit__(None, None, None)


async def test_without_the_keys_of_the_issuer_nobody_gets_in():
    port = find_free_port()
    async with run_upstream() as upstream:
        provider = replace(SSO, jwks_secret=None, jwks_uri=f"http://127.0.0.1:{port}/keys")
        spec = build_secured(Auth(jwt=(provider,)))
        token = f"Bearer {Issuer().sign()}"
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_session(spec.gateway.http_port) as session,
        ):
            assert (await get(session, authorization=token))[0] == 401
            async with run_issuer(port):
                await wait_until_answer(lambda: get(session, authorization=token), (200, "main-0"))


async def test_problem_of_secrets_closes_the_gateway():
    async with run_upstream() as upstream:
        spec = build_secured(Auth(api_keys=KEYS, jwt=(SSO,)))
        secrets = GatewaySecrets(problems=("Secret keys not found",))
        async with (
            run_gateway(spec, build_state([upstream.endpoint], secrets=secrets)),
            open_session(spec.gateway.http_port) as session,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            for headers in ({}, {"x-api-key": KEY}):
                status, error = await get(session, **headers)
                assert (status, error) == (503, CLOSED_MESSAGE)
            assert await try_call(channel) == (grpc.StatusCode.UNAVAILABLE, CLOSED_MESSAGE)
            assert upstream.received == []


async def test_anonymous_requests_reach_neither_the_control_plane_nor_a_server():
    async with run_control_plane() as control_plane:
        control_plane.release()
        spec = build_secured(Auth(api_keys=KEYS))
        idle = build_state(
            control_plane=control_plane.address, starting=frozenset({"main"}), secrets=SECRETS
        )
        async with (
            run_gateway(spec, idle),
            open_session(spec.gateway.http_port) as session,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            assert (await get(session))[0] == 401
            assert (await try_call(channel))[0] is UNAUTHENTICATED
            assert (await try_call(channel, "RepositoryIndex"))[0] is UNAUTHENTICATED
            assert (control_plane.checks, control_plane.answered) == ([], [])
            key = [("x-api-key", KEY)]
            answer = await try_call(channel, "RepositoryIndex", metadata=key)
            assert answer == (OK, "of the control plane")
