"""The clusters of the ports of a group of servers."""

from kilonova.api.durations import parse_duration
from kilonova.api.serving import InferenceServiceSpec, ServerGroup
from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.config.envoy_types import (
    ADS,
    HTTP_OPTIONS,
    build_extension,
    build_typed,
    convert_duration,
    format_seconds,
)
from kilonova.serving.gateway.config.filters.lua_sources import build_lua_filter
from kilonova.serving.gateway.config.upstream.balancing import build_common_options, build_policy
from kilonova.serving.gateway.config.upstream.circuit_breakers import build_circuit_breakers
from kilonova.serving.gateway.config.upstream.endpoints import MODELS_KEY
from kilonova.serving.gateway.model import EnvoyResource
from kilonova.serving.gateway.stat_names import ServerPort

_CONNECT_TIMEOUT = "1s"
"""A server is near: another one is tried rather than waited for this one."""


def build_server_cluster(
    spec: InferenceServiceSpec, group: ServerGroup, port: ServerPort, servers: int
) -> EnvoyResource:
    """The cluster of one port of a group, which has so many servers."""
    gateway = spec.gateway
    http_options = build_typed(
        HTTP_OPTIONS,
        explicit_http_config=_build_upstream_protocol(group, port),
        common_http_protocol_options={"idle_timeout": convert_duration(gateway.idle_timeout)},
        **_build_upstream_filters(spec, group),
    )
    cluster: EnvoyResource = {
        "name": stat_names.build_upstream_cluster(group.name, port),
        "alt_stat_name": stat_names.build_server_cluster(group.name),
        "type": "EDS",
        "eds_cluster_config": {"eds_config": ADS},
        "connect_timeout": _CONNECT_TIMEOUT,
        "typed_extension_protocol_options": {HTTP_OPTIONS: http_options},
        "common_lb_config": build_common_options(gateway.load_balancing),
        "circuit_breakers": build_circuit_breakers(group, port, servers),
        "outlier_detection": _build_outlier_detection(spec),
        "upstream_connection_options": {
            "tcp_keepalive": {"keepalive_time": 15, "keepalive_interval": 5, "keepalive_probes": 3}
        },
        **build_policy(gateway.load_balancing, gateway.slow_start),
    }
    checks = _build_health_checks(spec, group)
    if checks:
        cluster["health_checks"] = checks
    if group.model_placement is not None and group.model_placement.models:
        cluster["lb_subset_config"] = {
            # A request for a model that is placed goes to a server that has it, any other request
            # to any server.
            "fallback_policy": "ANY_ENDPOINT",
            "subset_selectors": [{"keys": [MODELS_KEY], "fallback_policy": "ANY_ENDPOINT"}],
            "list_as_any": True,
        }
    return cluster


def _build_upstream_protocol(group: ServerGroup, port: ServerPort) -> EnvoyResource:
    if port == "http":
        return {"http_protocol_options": {}}
    options: EnvoyResource = {}
    if group.max_in_flight is not None:
        options["max_concurrent_streams"] = group.max_in_flight
    return {"http2_protocol_options": options}


def _build_upstream_filters(spec: InferenceServiceSpec, group: ServerGroup) -> EnvoyResource:
    """The filters of requests on their way to a server. Envoy sends the context of any trace on;
    Triton traces all that have one, whatever its flag says."""
    if spec.gateway.tracing is None or group.runtime != "Triton":
        return {}
    codec = build_extension(
        "envoy.filters.http.upstream_codec",
        "envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec",
    )
    return {"http_filters": [build_lua_filter("trace_context", {}), codec]}


def _build_outlier_detection(spec: InferenceServiceSpec) -> EnvoyResource:
    detection = spec.gateway.outlier_detection
    return {
        "interval": convert_duration(detection.interval),
        "base_ejection_time": convert_duration(detection.base_ejection_time),
        "max_ejection_percent": detection.max_ejection_percent,
        # Connections that fail, and answers that mean the same (502, 503, 504, UNAVAILABLE). An
        # error 500 is the answer of a model as often as the fault of a server: no reason.
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": detection.consecutive_errors,
        "consecutive_gateway_failure": detection.consecutive_errors,
        "enforcing_consecutive_gateway_failure": 100,
        "enforcing_consecutive_5xx": 0,
        "enforcing_success_rate": 0,
        "enforcing_local_origin_success_rate": 0,
    }


def _build_health_checks(spec: InferenceServiceSpec, group: ServerGroup) -> list[EnvoyResource]:
    check = spec.gateway.health_check
    path = check.path or _HEALTH_PATHS.get(group.protocol, "")
    if check.disabled or (group.ports.http and not path):
        return []
    interval = convert_duration(check.interval)
    common: EnvoyResource = {
        "interval": interval,
        # Without traffic, too: the first request is not to find out.
        "no_traffic_interval": interval,
        "timeout": convert_duration(check.timeout),
        "unhealthy_threshold": check.unhealthy_threshold,
        "healthy_threshold": 1,
        "unhealthy_interval": format_seconds(min(1.0, parse_duration(check.interval))),
    }
    if not group.ports.http:
        return [common | {"grpc_health_check": {}}]
    return [common | {"http_health_check": {"path": path, "codec_client_type": "HTTP1"}}]


_HEALTH_PATHS = {"V2": "/v2/health/ready", "OpenAI": "/health"}
"""By protocol. Of any other HTTP server no path is known."""
