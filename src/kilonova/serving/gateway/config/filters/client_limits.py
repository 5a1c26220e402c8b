"""Limits of each client: requests, and tokens of the OpenAI API."""

from collections.abc import Iterator

from kilonova.api.serving import Limits
from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.config.envoy_types import build_header
from kilonova.serving.gateway.config.filters.lua_sources import build_lua_filter
from kilonova.serving.gateway.config.filters.token_buckets import (
    BY_CLIENT,
    CLIENT_KEY,
    ClientBuckets,
    build_bucket_filter,
)
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.model import EnvoyResource

_UNPAID = build_header("x-kilonova-unpaid", "1")
"""For the script: the request was refused, and paid nothing."""
_BY_DEBT: EnvoyResource = {
    "actions": [
        {
            "metadata": {
                "descriptor_key": CLIENT_KEY,
                "metadata_key": {"key": "kilonova.tokens", "path": [{"key": "client"}]},
            }
        }
    ],
    "hits_addend": {"format": "%DYNAMIC_METADATA(kilonova.tokens:hits)%"},
}
"""What a client owes, as the script computed it; requests that cost no tokens have no client
there."""


def build_limit_filters(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The filters of all limits of clients."""
    limits = inputs.spec.limits
    requests = _list_request_limits(limits)
    if requests.exist:
        yield build_bucket_filter(
            inputs, stat_names.RATE_LIMIT_STAT_PREFIX, requests, rate_limits=BY_CLIENT
        )
    tokens = _list_token_limits(limits)
    if tokens.exist:
        yield _build_token_counter(inputs, tokens)
        yield build_bucket_filter(
            inputs,
            stat_names.TOKEN_LIMIT_STAT_PREFIX,
            tokens,
            rate_limits=[_BY_DEBT],
            headers=[_UNPAID],
        )


def _build_token_counter(inputs: GatewayInputs, buckets: ClientBuckets) -> EnvoyResource:
    # More than a bucket holds cannot be taken from it at once.
    bursts = {
        client: inputs.divide(limit.burst or limit.per_minute) for client, limit in buckets.some
    }
    every = buckets.every
    burst = inputs.divide(every.burst or every.per_minute) if every else False
    return build_lua_filter("tokens", {"burst": burst, "bursts": bursts})


def _list_request_limits(limits: Limits) -> ClientBuckets:
    some = [(each.client, each.requests) for each in limits.clients]
    return ClientBuckets(limits.requests, tuple((c, limit) for c, limit in some if limit))


def _list_token_limits(limits: Limits) -> ClientBuckets:
    some = [(each.client, each.tokens) for each in limits.clients]
    return ClientBuckets(limits.tokens, tuple((c, limit) for c, limit in some if limit))
