"""Holding requests: `ext_authz` asks the control plane, which answers once there is a server.

The filter is only on the path of requests of a group without a server.
"""

from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.config.envoy_types import (
    build_enabled,
    build_extension,
    build_typed,
    format_seconds,
)
from kilonova.serving.gateway.config.filters.grpc_status import build_grpc_status
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.control_plane_calls import (
    GROUP_EXTENSION,
    MODEL_EXTENSION,
    build_call_headers,
)
from kilonova.serving.gateway.model import EnvoyResource

HOLD_FILTER = "hold"
_PER_ROUTE = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute"
_LONGEST_HOLD = 7 * 24 * 3600.0
"""The control plane ends a hold by its `holdTimeout`; this is for one that never answers."""


def build_hold_filter(inputs: GatewayInputs) -> EnvoyResource:
    """The filter."""
    return build_extension(
        HOLD_FILTER,
        "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
        transport_api_version="V3",
        grpc_service=_build_service(inputs, inputs.spec.servers[0].name),
        status_on_error={"code": "ServiceUnavailable"},
        # Only who asks, and for what: not a copy of the request.
        allowed_headers={"patterns": [{"exact": "user-agent"}]},
    )


def build_hold(inputs: GatewayInputs, group: str, model: str = "") -> dict[str, EnvoyResource]:
    """The `typed_per_filter_config` of a route whose requests are held."""
    extensions = {GROUP_EXTENSION: group}
    if model:
        extensions[MODEL_EXTENSION] = model
    settings = {
        "context_extensions": extensions,
        # Calls are counted by the cluster of the group: that is how many are held.
        "grpc_service": _build_service(inputs, group),
    }
    hold = build_enabled(build_typed(_PER_ROUTE, check_settings=settings))
    return {HOLD_FILTER: hold, **build_grpc_status()}


def build_no_hold() -> dict[str, EnvoyResource]:
    """The `typed_per_filter_config` of a virtual host whose requests are not held."""
    return {HOLD_FILTER: build_typed(_PER_ROUTE, disabled=True)}


def build_unused_hold() -> dict[str, EnvoyResource]:
    """The same where the filter is disabled: a listener that enables it comes before its routes,
    and would hold the requests of no group until then."""
    return {HOLD_FILTER: build_typed("envoy.config.route.v3.FilterConfig", disabled=True)}


def _build_service(inputs: GatewayInputs, group: str) -> EnvoyResource:
    metadata = build_call_headers(inputs.key, inputs.state.token)
    return {
        "envoy_grpc": {"cluster_name": stat_names.build_hold_cluster(group)},
        # A control plane that restarts is asked again. Envoy doubles the pause and takes a random
        # part of it: 102 seconds in all on average, 205 at most, and below 25 in one of 300 cases.
        # (The policy of `envoy_grpc` is for xDS alone.) `max_interval` cannot make pauses even: it
        # is the time limit of each try, too.
        "retry_policy": {
            "retry_on": "unavailable,connect-failure,reset,refused-stream",
            "num_retries": 11,
            "retry_back_off": {
                "base_interval": "0.1s",
                "max_interval": format_seconds(_LONGEST_HOLD),
            },
        },
        "initial_metadata": [{"key": name, "value": value} for name, value in metadata.items()],
        "timeout": format_seconds(_LONGEST_HOLD),
    }
