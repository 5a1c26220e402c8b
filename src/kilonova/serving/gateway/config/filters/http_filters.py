"""The filters of every request, in their order: who is it, may it, where to."""

from kilonova.serving.gateway.config.envoy_types import build_extension
from kilonova.serving.gateway.config.filters.authentication import (
    build_authentication_filters,
)
from kilonova.serving.gateway.config.filters.grpc_status import build_grpc_status_filter
from kilonova.serving.gateway.config.filters.hold import build_hold_filter
from kilonova.serving.gateway.config.filters.request_names import build_name_filters
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.model import EnvoyResource


def build_http_filters(inputs: GatewayInputs) -> list[EnvoyResource]:
    """The HTTP filters of the connection manager."""
    # A filter that only some routes use is not on the path of others. Which route that is, Envoy
    # looks up before any filter runs: if a body has to be read first, it is on every path.
    optional: EnvoyResource = {} if inputs.reads_bodies() else {"disabled": True}
    return [
        *build_authentication_filters(inputs),
        *build_name_filters(inputs),
        build_hold_filter(inputs) | optional,
        build_grpc_status_filter() | optional,
        _build_router(),
    ]


def _build_router() -> EnvoyResource:
    return build_extension(
        "envoy.filters.http.router",
        "envoy.extensions.filters.http.router.v3.Router",
        suppress_envoy_headers=True,
    )
