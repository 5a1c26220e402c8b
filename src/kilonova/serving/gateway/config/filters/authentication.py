"""Who sends a request, checked before anything else: an API key or a JSON web token, either of
them where both are configured; the client's name goes on in a header, the key does not."""

import base64
import hashlib
import json
from collections.abc import Iterator

from kilonova.api.serving import JwtProvider
from kilonova.serving.gateway.config.envoy_types import build_extension, build_typed
from kilonova.serving.gateway.config.filters.lua_sources import LuaValue, build_lua_filter
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.config.request_headers import CLIENT_HEADER
from kilonova.serving.gateway.config.upstream.jwks_clusters import build_jwks_cluster_name
from kilonova.serving.gateway.model import EnvoyResource

_KEY_FILTER, _TOKEN_FILTER = "api-keys", "jwt"
_LUA_PER_ROUTE = "envoy.extensions.filters.http.lua.v3.LuaPerRoute"
_JWT_PACKAGE = "envoy.extensions.filters.http.jwt_authn.v3"
_JWKS_FETCH_TIMEOUT = "5s"


def build_authentication_filters(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The filters; a request that they let pass has a client."""
    auth = inputs.spec.auth
    if auth is None:
        return
    if auth.jwt:
        yield _build_jwt_filter(inputs, auth.jwt, is_required=auth.api_keys is None)
    if auth.api_keys is not None:
        settings: dict[str, LuaValue] = {
            "header": auth.api_keys.header.lower(),
            "credential": "API key or token" if auth.jwt else "API key",
            "tokens": bool(auth.jwt),
        }
        yield build_lua_filter("api_keys", settings, libraries=("sha256",), chooses_route=False)


def build_key_digests(inputs: GatewayInputs) -> dict[str, EnvoyResource]:
    """The `typed_per_filter_config` of all routes: the digests of keys, and their clients. They are
    no part of the filter, because a listener that changes ends the connections it has."""
    if inputs.spec.auth is None or inputs.spec.auth.api_keys is None:
        return {}
    clients = {digest.lower(): client for client, digest in inputs.state.secrets.api_keys}
    return {_KEY_FILTER: build_typed(_LUA_PER_ROUTE, filter_context=clients)}


def build_no_authentication(inputs: GatewayInputs) -> dict[str, EnvoyResource]:
    """The `typed_per_filter_config` of routes that refuse all requests of all clients."""
    auth = inputs.spec.auth
    filters: dict[str, EnvoyResource] = {}
    if auth is not None and auth.api_keys is not None:
        filters[_KEY_FILTER] = build_typed(_LUA_PER_ROUTE, disabled=True)
    if auth is not None and auth.jwt:
        filters[_TOKEN_FILTER] = build_typed(f"{_JWT_PACKAGE}.PerRouteConfig", disabled=True)
    return filters


def _build_jwt_filter(
    inputs: GatewayInputs, providers: tuple[JwtProvider, ...], *, is_required: bool
) -> EnvoyResource:
    """The filter of tokens. If an API key will do as well, it only notes a valid token: the filter
    of keys, which is next, refuses requests that have neither."""
    local = dict(inputs.state.secrets.jwks)
    alternatives: list[EnvoyResource] = [{"provider_name": each.name} for each in providers]
    if not is_required:
        alternatives.append({"allow_missing_or_failed": {}})
    requirement: EnvoyResource = (
        {"requires_any": {"requirements": alternatives}}
        if len(alternatives) > 1
        else alternatives[0]
    )
    return build_extension(
        _TOKEN_FILTER,
        f"{_JWT_PACKAGE}.JwtAuthentication",
        providers={
            each.name: _build_provider(each, local.get(each.name) or _build_no_keys(inputs))
            for each in providers
        },
        rules=[{"match": {"prefix": "/"}, "requires": requirement}],
    )


def _build_provider(provider: JwtProvider, jwks: str) -> EnvoyResource:
    built: EnvoyResource = {
        "issuer": provider.issuer,
        "claim_to_headers": [{"header_name": CLIENT_HEADER, "claim_name": provider.client_claim}],
        "payload_in_metadata": "payload",
        # Envoy also takes tokens of queries, which are in traces.
        "from_headers": [{"name": "Authorization", "value_prefix": "Bearer "}],
        # The clock of an issuer may be ahead of ours.
        "clock_skew_seconds": 10,
        "jwt_cache_config": {"jwt_cache_size": 1000},
    }
    if provider.audiences:
        built["audiences"] = list(provider.audiences)
    if provider.jwks_uri is None:
        built["local_jwks"] = {"inline_string": jwks}
        return built
    built["remote_jwks"] = {
        "http_uri": {
            "uri": provider.jwks_uri,
            "cluster": build_jwks_cluster_name(provider),
            "timeout": _JWKS_FETCH_TIMEOUT,
        },
        "cache_duration": "300s",
        # Keys are there before the first request, and stay if they cannot be fetched again.
        "async_fetch": {"failed_refetch_duration": "1s"},
        "retry_policy": {"num_retries": 2},
    }
    return built


def _build_no_keys(inputs: GatewayInputs) -> str:
    """The keys of a provider whose Secret is missing. Envoy takes no empty set, and without any the
    listener would be gone, or open: a key without a signer keeps it closed."""
    secret = hashlib.sha256(f"no keys: {inputs.state.token}".encode()).digest()
    key = base64.urlsafe_b64encode(secret).decode().rstrip("=")
    return json.dumps({"keys": [{"kty": "oct", "alg": "HS256", "k": key}]})
