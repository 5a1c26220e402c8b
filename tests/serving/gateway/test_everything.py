"""A service that uses everything at once."""

import hashlib
from dataclasses import replace

import grpc

from kilonova.api.serving import (
    ApiKeys,
    Auth,
    Autoscaling,
    ClientLimit,
    ConnectionRate,
    HashKey,
    HeaderMatch,
    JwtProvider,
    Limits,
    LoadBalancing,
    LoadLimit,
    Model,
    ModelPlacement,
    RateLimit,
    Route,
    RouteBackend,
    SecretKey,
    Tracing,
)
from kilonova.serving.gateway.config.routing.refusals import CLOSED_MESSAGE
from kilonova.serving.gateway.model import GatewaySecrets
from tests.serving.gateway.support.clients import build_infer, open_channel, open_session, try_call
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.tokens import ISSUER, Issuer
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until_answer

KEY = "kn-0123456789"


async def test_all_features_together_serve_a_request():
    issuer = Issuer()
    limit = RateLimit(per_minute=6000)
    keys = ("ClientAddress", HashKey("Cookie", name="s", ttl="1h"), "Model", "PromptPrefix")
    spec = build_spec(
        build_group(
            max_in_flight=8,
            max_queued=16,
            autoscaling=Autoscaling(max_replicas=3, min_replicas=0),
            model_placement=ModelPlacement(models=(Model("m", min_copies=0), Model("n"))),
        ),
        build_group("llm", protocol="OpenAI"),
        routes=(
            Route(
                backends=(RouteBackend("main", 90), RouteBackend("llm", 10)),
                headers=(HeaderMatch("x-canary", "yes"),),
                timeout="10s",
            ),
            Route(backends=(RouteBackend("llm"),), models=("gpt", "a.b+c")),
        ),
        gateway=build_gateway(
            load_balancing=LoadBalancing(
                policy="Maglev",
                hash=tuple(HashKey(each) if isinstance(each, str) else each for each in keys),
            ),
            slow_start="10s",
            access_log=True,
            tracing=Tracing(endpoint="http://127.0.0.1:1"),
        ),
        auth=Auth(
            jwt=(JwtProvider("sso", ISSUER, ("inference",), jwks_secret=SecretKey("jwks")),),
            api_keys=ApiKeys(secret="keys"),
        ),
        limits=Limits(
            connections=1000,
            connection_rate=ConnectionRate(burst=100, per_fill=10, fill_interval="1s"),
            requests=limit,
            tokens=limit,
            clients=(ClientLimit(client='a "b"\\', requests=limit, tokens=limit),),
            max_body_bytes=1_000_000,
            load=LoadLimit(in_flight_per_replica=10),
        ),
    )
    async with run_upstream("main-0") as main, run_upstream("llm-0") as llm:
        state = build_state(
            {
                "main": (main.build_endpoint(models=frozenset({"m"})),),
                "llm": (llm.endpoint,),
            },
            secrets=GatewaySecrets(
                api_keys=(('a "b"\\', hashlib.sha256(KEY.encode()).hexdigest()),),
                jwks=(("sso", issuer.jwks),),
            ),
        )
        async with (
            run_gateway(spec, state) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            key = [("x-api-key", KEY)]
            answer = await try_call(channel, message=build_infer("m"), metadata=key)
            assert answer == (grpc.StatusCode.OK, "main-0"), gateway.read_log()
            token = {"authorization": f"Bearer {issuer.sign()}"}
            body = {"model": "a.b+c", "prompt": "hello"}
            async with session.post("/v1/completions", json=body, headers=token) as reply:
                assert (reply.status, await reply.text()) == (200, "llm-0")
            async with session.post("/v1/completions", json=body) as reply:
                assert reply.status == 401

            gateway.apply(spec, replace(state, secrets=GatewaySecrets(problems=("gone",))))
            closed = (grpc.StatusCode.UNAVAILABLE, CLOSED_MESSAGE)
            await wait_until_answer(lambda: try_call(channel, metadata=key), closed)
            rejected = (
                "listener_manager.lds.update_rejected",
                "cluster_manager.cds.update_rejected",
            )
            assert [await gateway.read_stat(each) for each in rejected] == [0, 0]
