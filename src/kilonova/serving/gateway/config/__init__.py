"""Envoy's configuration for a service: pure, from an InferenceService and a `GatewayState`.

`render_gateway` is the whole of it, as resources of xDS in their JSON form; `render_bootstrap` is
what an Envoy starts with. `docs/internals/gateway.md` has the decisions and what was measured.
"""

from kilonova.serving.gateway.config.bootstrap import (
    ADMIN_FOLDER,
    build_arguments,
    render_bootstrap,
)
from kilonova.serving.gateway.config.gateway_config import render_gateway

__all__ = ["ADMIN_FOLDER", "build_arguments", "render_bootstrap", "render_gateway"]
