"""What the gateway reports of requests: an access log, and traces.

The gateway decides which requests are traced, and reports it in the `traceparent` that it sends on
to servers. What it traced it also reports to the control plane, for the status of the service.
"""

from collections.abc import Iterator

from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.collector import parse_endpoint
from kilonova.serving.gateway.config.envoy_types import (
    build_explicit_http,
    build_extension,
    build_header,
    build_name_lookup,
)
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.config.request_headers import CLIENT_HEADER, MODEL_HEADER
from kilonova.serving.gateway.config.upstream.control_plane_clusters import build_static_assignment
from kilonova.serving.gateway.control_plane_calls import (
    LOG_NAME,
    TRACE_ID_TAG,
    build_call_headers,
)
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
    """The `access_log` of the connection manager: a line of JSON for each request, and a message
    to the control plane for each that is traced."""
    logs: list[EnvoyResource] = []
    if inputs.spec.gateway.access_log:
        logs.append(
            build_extension(
                "envoy.access_loggers.stdout",
                "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
                log_format={"json_format": _FIELDS, "omit_empty_values": True},
            )
        )
    if inputs.spec.gateway.tracing is not None:
        logs.append(_build_traced_log(inputs))
    return logs


def _build_traced_log(inputs: GatewayInputs) -> EnvoyResource:
    metadata = build_call_headers(inputs.key, inputs.state.token)
    log = build_extension(
        "envoy.access_loggers.http_grpc",
        "envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
        common_config={
            "log_name": LOG_NAME,
            "transport_api_version": "V3",
            "grpc_service": {
                "envoy_grpc": {"cluster_name": stat_names.CONTROL_PLANE_CLUSTER},
                "initial_metadata": [
                    {"key": name, "value": each} for name, each in metadata.items()
                ],
            },
            "buffer_size_bytes": _LOG_BYTES,
            "custom_tags": [{"tag": TRACE_ID_TAG, "value": "%TRACE_ID%"}],
        },
        additional_request_headers_to_log=[MODEL_HEADER],
        additional_response_headers_to_log=["grpc-status"],
        additional_response_trailers_to_log=["grpc-status"],
    )
    return {**log, "filter": {"and_filter": {"filters": [_TRACED, _SAMPLED]}}}


_LOG_BYTES = 64 << 10
"""The size of a message to the control plane; it is sent after a second, in any case."""
_CLIENT_TRACE_HEADER = "x-client-trace-id"
"""Envoy traces a request that has it, in any case; it then follows the flag of the client's
`traceparent`. Without it, a request that a client traces would be subject to the sampling."""

_TRACED: EnvoyResource = {
    "header_filter": {
        "header": {
            "name": "x-request-id",
            "string_match": {"safe_regex": {"regex": "[0-9a-f-]{14}[9ab][0-9a-f-]+"}},
        }
    }
}
"""A request that is traced: by sampling (9), or because a client traces it. Envoy writes that into
its request ids. (Its `traceable_filter` matches none of both.)"""
_SAMPLED: EnvoyResource = {
    "header_filter": {
        "header": {
            "name": "traceparent",
            "string_match": {"suffix": "-00"},
            "invert_match": True,
            "treat_missing_header_as_empty": True,
        }
    }
}
"""Not a request whose client indicates that it is not traced."""


def build_continuation(inputs: GatewayInputs) -> list[EnvoyResource]:
    """Early header mutations by which the traces of clients are continued."""
    if inputs.spec.gateway.tracing is None:
        return []
    value = build_header(_CLIENT_TRACE_HEADER, "%REQ(TRACEPARENT)%")
    return [
        build_extension(
            "envoy.http.early_header_mutation.header_mutation",
            "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
            mutations=[{"remove": _CLIENT_TRACE_HEADER}, {"append": value}],
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
        **build_name_lookup(),
        "connect_timeout": "5s",
        "load_assignment": build_static_assignment(name, host, port),
        "typed_extension_protocol_options": build_explicit_http(http2=True),
    }
