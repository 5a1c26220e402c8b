"""Which resources change with what: a listener that changes ends its connections."""

from dataclasses import replace

import pytest
from msgspec import structs

from kilonova.api.serving import (
    ApiKeys,
    Auth,
    GatewayTls,
    InferenceServiceSpec,
    JwtProvider,
    Limits,
    LoadLimit,
    Model,
    ModelPlacement,
    RateLimit,
    SecretKey,
)
from kilonova.serving.gateway.config import render_gateway
from kilonova.serving.gateway.model import GatewaySecrets, GatewayState, TlsMaterial
from tests.serving.gateway.support.services import (
    DRAINING,
    build_endpoint,
    build_gateway,
    build_group,
    build_spec,
    build_state,
)

KEY = ("default", "web")
ONE, TWO = build_endpoint("main-0"), build_endpoint("main-1", address="10.0.0.2")
PLAIN = build_spec()
LIMITED = build_spec(
    limits=Limits(requests=RateLimit(per_minute=100), load=LoadLimit(in_flight_per_replica=1)),
    auth=Auth(api_keys=ApiKeys(secret="keys")),
)
SECURED = build_spec(gateway=build_gateway(tls=GatewayTls(secret="tls")))
QUEUED = build_spec(build_group(max_in_flight=8, max_queued=8))
PLACED = build_spec(build_group(model_placement=ModelPlacement(models=(Model("a"), Model("b")))))
TOKENS = JwtProvider(name="sso", issuer="https://issuer.example", jwks_secret=SecretKey("jwks"))
KEYS = GatewaySecrets(api_keys=(("a", "0" * 64),))


def build_tls(certificate: str) -> GatewayState:
    return build_state([ONE], secrets=GatewaySecrets(tls=TlsMaterial(certificate, "key")))


def build_placed(*models: str) -> GatewayState:
    return build_state([replace(ONE, models=frozenset(models))])


@pytest.mark.parametrize(
    ("spec", "before", "after", "changed"),
    [
        (PLAIN, build_state([ONE]), build_state([ONE]), set()),
        (PLAIN, build_state([ONE]), build_state([ONE, TWO]), {"endpoints"}),
        (
            PLAIN,
            build_state([ONE, TWO]),
            build_state([ONE, replace(TWO, state=DRAINING)]),
            {"endpoints"},
        ),
        (PLAIN, build_state(), build_state([ONE]), {"endpoints", "routes"}),
        (PLAIN, build_state(), build_state(starting=frozenset({"main"})), {"routes"}),
        (PLAIN, build_state([ONE]), build_state([ONE], gateways=3), set()),
        (LIMITED, build_state([ONE]), build_state([ONE], gateways=3), {"listeners"}),
        (
            LIMITED,
            build_state([ONE]),
            build_state([ONE], overloaded=frozenset({"main"})),
            {"routes"},
        ),
        (LIMITED, build_state([ONE]), build_state([ONE], secrets=KEYS), {"routes"}),
        (
            LIMITED,
            build_state([ONE], secrets=KEYS),
            build_state([ONE], secrets=GatewaySecrets(problems=("gone",))),
            {"routes"},
        ),
        (SECURED, build_tls("old"), build_tls("new"), {"secrets"}),
        (QUEUED, build_state([ONE]), build_state([ONE, TWO]), {"clusters", "endpoints"}),
        (PLACED, build_placed("a"), build_placed("a", "b"), {"endpoints", "routes"}),
        (PLACED, build_placed("a", "b"), build_placed("a", "b", "c"), {"endpoints"}),
    ],
    ids=[
        "nothing",
        "further server",
        "drain",
        "first server",
        "start",
        "gateways",
        "gateways with limits",
        "overload",
        "keys",
        "problem",
        "certificate",
        "queue",
        "first copy of a model",
        "model that nobody manages",
    ],
)
def test_only_what_depends_on_it_changes(
    spec: InferenceServiceSpec, before: GatewayState, after: GatewayState, changed: set[str]
):
    one, other = (render_gateway(KEY, spec, state) for state in (before, after))
    kinds = ("listeners", "routes", "clusters", "endpoints", "secrets")
    assert {kind for kind in kinds if getattr(one, kind) != getattr(other, kind)} == changed


def find_routes(spec: InferenceServiceSpec) -> str:
    """The name of the routes that the listener refers to; there are routes of that name."""
    config = render_gateway(KEY, spec, build_state([ONE], secrets=KEYS))
    [chain] = config.listeners["gateway"]["filter_chains"]
    name = chain["filters"][-1]["typed_config"]["rds"]["route_config_name"]
    assert config.routes[name]["name"] == name
    return name


def test_listener_that_checks_keys_waits_for_routes_that_have_them():
    with_keys = replace_auth(Auth(api_keys=ApiKeys(secret="keys")))
    with_tokens = replace_auth(Auth(jwt=(TOKENS,)))
    with_both = replace_auth(Auth(api_keys=ApiKeys(secret="keys"), jwt=(TOKENS,)))
    # Envoy uses a listener when it has the routes of a name that is new to it.
    assert find_routes(PLAIN) == find_routes(with_tokens) != find_routes(with_keys)
    assert find_routes(with_keys) == find_routes(with_both)
    config = render_gateway(KEY, with_keys, build_state([ONE], secrets=KEYS))
    assert find_routes(PLAIN) in config.routes, "connections of the former listener are routed"


def replace_auth(auth: Auth) -> InferenceServiceSpec:
    return structs.replace(PLAIN, auth=auth)
