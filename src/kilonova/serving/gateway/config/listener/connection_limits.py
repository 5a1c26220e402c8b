"""Limits of connections: how many there are at the same time, and how fast new ones come."""

from collections.abc import Iterator

from kilonova.serving.gateway.config.envoy_types import build_extension, convert_duration
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.model import EnvoyResource

_STAT_PREFIX = "gateway"


def build_connection_limit(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The network filter of `limits.connections`: further connections are closed at once, until one
    of those that are open ends. Each gateway allows its part."""
    limit = inputs.spec.limits.connections
    if limit is not None:
        yield build_extension(
            "envoy.filters.network.connection_limit",
            "envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit",
            stat_prefix=_STAT_PREFIX,
            max_connections=inputs.divide(limit),
        )


def build_connection_rate(inputs: GatewayInputs) -> EnvoyResource | None:
    """The listener filter of `limits.connectionRate`, of each gateway by itself."""
    rate = inputs.spec.limits.connection_rate
    if rate is None:
        return None
    return build_extension(
        "envoy.filters.listener.local_ratelimit",
        "envoy.extensions.filters.listener.local_ratelimit.v3.LocalRateLimit",
        stat_prefix=_STAT_PREFIX,
        token_bucket={
            "max_tokens": rate.burst,
            "tokens_per_fill": rate.per_fill,
            "fill_interval": convert_duration(rate.fill_interval),
        },
    )
