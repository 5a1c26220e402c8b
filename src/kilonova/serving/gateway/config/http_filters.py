"""The filters of every request, in their order: who is it, may it, where to."""

from kilonova.api.serving import InferenceServiceSpec
from kilonova.serving.gateway.config.envoy_types import build_extension
from kilonova.serving.gateway.model import EnvoyResource, GatewayState


def build_http_filters(spec: InferenceServiceSpec, state: GatewayState) -> list[EnvoyResource]:
    """The HTTP filters of the connection manager."""
    del spec, state
    return [_build_router()]


def _build_router() -> EnvoyResource:
    return build_extension(
        "envoy.filters.http.router",
        "envoy.extensions.filters.http.router.v3.Router",
        suppress_envoy_headers=True,
    )
