"""The filters of every request, in their order: who is it, may it, where to."""

from kilonova.serving.gateway.config.envoy_types import build_extension
from kilonova.serving.gateway.config.filters.authentication import (
    build_authentication_filters,
)
from kilonova.serving.gateway.config.filters.body_limit import build_body_limit
from kilonova.serving.gateway.config.filters.client_limits import build_limit_filters
from kilonova.serving.gateway.config.filters.client_names import (
    build_name_of_certificate,
    build_routes_by_client,
)
from kilonova.serving.gateway.config.filters.grpc_status import build_grpc_status_filter
from kilonova.serving.gateway.config.filters.hold import build_hold_filter
from kilonova.serving.gateway.config.filters.request_names import build_name_filters
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.model import EnvoyResource


def build_http_filters(inputs: GatewayInputs) -> list[EnvoyResource]:
    """The HTTP filters of the connection manager."""
    # A filter that only some routes use is not on the path of others. Which route that is, Envoy
    # looks up before any filter runs: if it is chosen again later, the filter is on every path.
    optional: EnvoyResource = {} if inputs.changes_routes() else {"disabled": True}
    limits_bodies = inputs.spec.limits.max_body_bytes is not None
    return [
        *build_authentication_filters(inputs),
        *build_name_of_certificate(inputs),
        *build_routes_by_client(inputs),
        *build_limit_filters(inputs),
        *build_body_limit(inputs),
        *build_name_filters(inputs),
        build_hold_filter(inputs) | optional,
        build_grpc_status_filter() | ({} if limits_bodies else optional),
        _build_router(),
    ]


def _build_router() -> EnvoyResource:
    return build_extension(
        "envoy.filters.http.router",
        "envoy.extensions.filters.http.router.v3.Router",
        suppress_envoy_headers=True,
    )
