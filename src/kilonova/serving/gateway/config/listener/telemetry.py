"""What the gateway says of requests: an access log, and traces."""

from collections.abc import Iterator

from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.collector import parse_endpoint
from kilonova.serving.gateway.config.envoy_types import build_explicit_http, build_extension
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.config.request_headers import CLIENT_HEADER, MODEL_HEADER
from kilonova.serving.gateway.config.upstream.control_plane_clusters import build_static_assignment
from kilonova.serving.gateway.model import EnvoyResource

_FIELDS = {
    "time": "%START_TIME%",
    "method": "%REQ(:METHOD)%",
    # Without its query, which may have a token.
    "path": "%PATH(NQ)%",
    "protocol": "%PROTOCOL%",
    "status": "%RESPONSE_CODE%",
    "grpcStatus": "%GRPC_STATUS%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "durationMs": "%DURATION%",
    "bytesReceived": "%BYTES_RECEIVED%",
    "bytesSent": "%BYTES_SENT%",
    "client": f"%REQ({CLIENT_HEADER})%",
    "model": f"%REQ({MODEL_HEADER})%",
    "clientAddress": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "cluster": "%UPSTREAM_CLUSTER%",
    "server": "%UPSTREAM_HOST_NAME%",
    "serverAddress": "%UPSTREAM_HOST%",
    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    "requestId": "%REQ(X-REQUEST-ID)%",
    "traceId": "%TRACE_ID%",
}


def build_access_log(inputs: GatewayInputs) -> list[EnvoyResource]:
    """The `access_log` of the connection manager: a line of JSON for each request."""
    if not inputs.spec.gateway.access_log:
        return []
    return [
        build_extension(
            "envoy.access_loggers.stdout",
            "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
            log_format={"json_format": _FIELDS, "omit_empty_values": True},
        )
    ]


def build_tracing(inputs: GatewayInputs) -> EnvoyResource | None:
    """The `tracing` of the connection manager: a span for each request that is sampled, and for
    each that a client traces already. Its context goes on to the server."""
    tracing = inputs.spec.gateway.tracing
    if tracing is None:
        return None
    namespace, name = inputs.key
    return {
        "provider": build_extension(
            "envoy.tracers.opentelemetry",
            "envoy.config.trace.v3.OpenTelemetryConfig",
            grpc_service={
                "envoy_grpc": {"cluster_name": stat_names.TRACING_CLUSTER},
                "timeout": "5s",
            },
            service_name=f"{name}-gateway",
        ),
        "random_sampling": {"value": tracing.sampling_percent},
        "spawn_upstream_span": True,
        "custom_tags": [
            {"tag": "kilonova.service", "literal": {"value": f"{namespace}/{name}"}},
            *(
                {"tag": tag, "request_header": {"name": header}}
                for tag, header in (("client", CLIENT_HEADER), ("model", MODEL_HEADER))
            ),
        ],
    }


def build_tracing_cluster(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The cluster of the collector."""
    tracing = inputs.spec.gateway.tracing
    if tracing is None:
        return
    host, port = parse_endpoint(tracing.endpoint)
    name = stat_names.TRACING_CLUSTER
    yield {
        "name": name,
        "type": "STRICT_DNS",
        "dns_lookup_family": "V4_PREFERRED",
        "connect_timeout": "5s",
        "load_assignment": build_static_assignment(name, host, port),
        "typed_extension_protocol_options": build_explicit_http(http2=True),
    }
