"""Limits of clients as Envoy's local rate limits: a bucket for each client.

A client is its name in `CLIENT_HEADER`, or else its address. Each gateway enforces its part.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from kilonova.api.serving import RateLimit
from kilonova.serving.gateway.config.envoy_types import build_extension, build_header
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.config.request_headers import CLIENT_HEADER
from kilonova.serving.gateway.model import EnvoyResource

CLIENT_KEY = "client"
"""The key of the descriptor of a client with a name."""

_ADDRESS = "remote_address"
_UNNAMED = {"key": "unnamed", "value": "true"}
_MAX_CLIENTS = 10_000
"""Buckets that are kept, the least recently used go first."""
BY_CLIENT: list[EnvoyResource] = [
    {
        "actions": [
            {"request_headers": {"header_name": CLIENT_HEADER, "descriptor_key": CLIENT_KEY}}
        ]
    },
    {
        "actions": [
            {
                "header_value_match": {
                    "descriptor_key": _UNNAMED["key"],
                    "descriptor_value": _UNNAMED["value"],
                    "expect_match": False,
                    "headers": [{"name": CLIENT_HEADER, "present_match": True}],
                }
            },
            {"remote_address": {}},
        ]
    },
]
"""Rate limits of a request: one from the bucket of its client."""

_UNLIMITED: EnvoyResource = {
    "max_tokens": 1_000_000_000,
    "tokens_per_fill": 1_000_000_000,
    "fill_interval": "1s",
}
_ALWAYS: EnvoyResource = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}


@dataclass(frozen=True, slots=True)
class ClientBuckets:
    """The limit of every client, and those of some."""

    every: RateLimit | None
    some: tuple[tuple[str, RateLimit], ...]

    @property
    def exist(self) -> bool:
        """Whether there is any limit."""
        return self.every is not None or bool(self.some)


def build_bucket_filter(
    inputs: GatewayInputs,
    name: str,
    buckets: ClientBuckets,
    *,
    rate_limits: list[EnvoyResource],
    headers: Iterable[EnvoyResource] = (),
) -> EnvoyResource:
    """The filter of some limits. `rate_limits` specify what bucket a request takes how much
    from."""
    descriptors = [
        _build_descriptor(inputs, limit, {"key": CLIENT_KEY, "value": client})
        for client, limit in buckets.some
    ]
    if buckets.every is not None:
        descriptors += [
            _build_descriptor(inputs, buckets.every, {"key": CLIENT_KEY}),
            _build_descriptor(inputs, buckets.every, _UNNAMED, {"key": _ADDRESS}),
        ]
    return build_extension(
        name.replace("_", "-"),
        "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
        stat_prefix=name,
        token_bucket=_UNLIMITED,
        always_consume_default_token_bucket=False,
        filter_enabled=_ALWAYS,
        filter_enforced=_ALWAYS,
        rate_limited_as_resource_exhausted=True,
        rate_limits=rate_limits,
        descriptors=descriptors,
        max_dynamic_descriptors=_MAX_CLIENTS,
        response_headers_to_add=[*_build_hints(buckets), *headers],
    )


def _build_descriptor(
    inputs: GatewayInputs, limit: RateLimit, *entries: dict[str, str]
) -> EnvoyResource:
    """A bucket, or one for each value of an entry that has none."""
    return {
        "entries": list(entries),
        "token_bucket": {
            "max_tokens": inputs.divide(limit.burst or limit.per_minute),
            "tokens_per_fill": inputs.divide(limit.per_minute),
            "fill_interval": "60s",
        },
    }


def _build_hints(buckets: ClientBuckets) -> list[EnvoyResource]:
    """When there is a token again: one answer for all clients, of the slowest bucket."""
    limits = [*(limit for _, limit in buckets.some), *([buckets.every] if buckets.every else [])]
    seconds = max(60 / limit.per_minute for limit in limits)
    return [
        build_header("retry-after", str(max(1, ceil(seconds)))),
        build_header("grpc-retry-pushback-ms", str(ceil(seconds * 1000))),
    ]
