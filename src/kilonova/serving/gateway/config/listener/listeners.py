"""The listener: the addresses and ports of the gateway, and what a connection meets."""

from kilonova.api.durations import parse_duration
from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.config.envoy_types import (
    ADS,
    build_extension,
    build_socket_address,
    convert_duration,
    format_seconds,
)
from kilonova.serving.gateway.config.filters.http_filters import build_http_filters
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.config.listener.connection_limits import (
    build_connection_limit,
    build_connection_rate,
)
from kilonova.serving.gateway.config.listener.downstream_tls import build_transport_socket
from kilonova.serving.gateway.config.listener.local_replies import build_local_replies
from kilonova.serving.gateway.config.listener.telemetry import (
    build_access_log,
    build_continuation,
    build_tracing,
)
from kilonova.serving.gateway.config.request_headers import build_early_removal
from kilonova.serving.gateway.config.routing.routes import select_routes
from kilonova.serving.gateway.model import EnvoyResource

LISTENER = "gateway"

_BUFFER_BYTES = 1 << 20
"""What is read from a connection before its other end has taken it: a larger body streams."""

_NOBODY: EnvoyResource = {"address_prefix": "255.255.255.255", "prefix_len": 32}
_MARGIN_SECONDS = 60
_HANDSHAKE_TIMEOUT = "15s"


def build_listeners(inputs: GatewayInputs) -> dict[str, EnvoyResource]:
    """The listener of both ports, so that limits of connections count them together."""
    ports = sorted({inputs.spec.gateway.http_port, inputs.spec.gateway.grpc_port} - {0})
    hosts = ("0.0.0.0", *inputs.state.listen_addresses)  # noqa: S104 - a gateway is there to be reached
    addresses = [build_socket_address(host, port) for host in hosts for port in ports]
    if not addresses:
        return {}
    listener: EnvoyResource = {
        "name": LISTENER,
        "stat_prefix": LISTENER,
        "address": addresses[0],
        "per_connection_buffer_limit_bytes": _BUFFER_BYTES,
        "filter_chains": [_build_filter_chain(inputs)],
    }
    rate = build_connection_rate(inputs)
    if rate is not None:
        listener["listener_filters"] = [rate]
    if addresses[1:]:
        listener["additional_addresses"] = [{"address": each} for each in addresses[1:]]
    return {LISTENER: listener}


def _build_filter_chain(inputs: GatewayInputs) -> EnvoyResource:
    filters = [*build_connection_limit(inputs), _build_connection_manager(inputs)]
    chain: EnvoyResource = {"filters": filters}
    transport_socket = build_transport_socket(inputs)
    if transport_socket is not None:
        chain["transport_socket"] = transport_socket
        chain["transport_socket_connect_timeout"] = _HANDSHAKE_TIMEOUT
    return chain


def _build_connection_manager(inputs: GatewayInputs) -> EnvoyResource:
    idle_timeout = convert_duration(inputs.spec.gateway.idle_timeout)
    fields: EnvoyResource = {
        "codec_type": "AUTO",
        "local_reply_config": build_local_replies(inputs),
        "stat_prefix": stat_names.HTTP_STAT_PREFIX,
        "rds": {"route_config_name": select_routes(inputs), "config_source": ADS},
        "http_filters": build_http_filters(inputs),
        "early_header_mutation_extensions": [build_early_removal(), *build_continuation(inputs)],
        "common_http_protocol_options": {
            "idle_timeout": idle_timeout,
            "headers_with_underscores_action": "ALLOW",
        },
        "http2_protocol_options": {"max_concurrent_streams": 8192},
        # A response may take long, and a server that starts: only a request without any progress
        # ends.
        "stream_idle_timeout": format_seconds(_get_longest_pause(inputs)),
        "request_headers_timeout": "30s",
        # The peer is the client; behind an Ingress, the one that it forwards for.
        "use_remote_address": True,
        "xff_num_trusted_hops": 0 if inputs.spec.gateway.ingress is None else 1,
        # No request is internal: no client commands Envoy by headers (`x-envoy-…`).
        "internal_address_config": {"cidr_ranges": [_NOBODY]},
        # Envoy writes into its ids what it traces; with one that is no UUID it traces nothing.
        "preserve_external_request_id": inputs.spec.gateway.tracing is None,
        "normalize_path": True,
        "merge_slashes": False,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "server_header_transformation": "PASS_THROUGH",
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "stream_error_on_invalid_http_message": True,
    }
    log = build_access_log(inputs)
    if log:
        fields["access_log"] = log
    tracing = build_tracing(inputs)
    if tracing is not None:
        fields["tracing"] = tracing
    return build_extension(
        "envoy.filters.network.http_connection_manager",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        **fields,
    )


def _get_longest_pause(inputs: GatewayInputs) -> float:
    """The seconds for which nothing may happen in a request."""
    holds = [
        parse_duration(each.autoscaling.scale_to_zero.hold_timeout) + _MARGIN_SECONDS
        for each in inputs.spec.servers
        if each.autoscaling is not None
    ]
    return max([parse_duration(inputs.spec.gateway.idle_timeout), *holds])
