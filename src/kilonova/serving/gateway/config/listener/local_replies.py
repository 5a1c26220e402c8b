"""What Envoy's own answers look like: a gRPC status, or a body of JSON, that describes what
happened."""

from kilonova.serving.gateway.config.envoy_types import build_extension, build_header
from kilonova.serving.gateway.config.filters.grpc_status import (
    DEADLINE_EXCEEDED,
    GRPC_STATUS_HEADER,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
)
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.model import EnvoyResource

OVERFLOW_MESSAGE = "too many requests wait for a server"
SIZE_MESSAGE = "the request is larger than the gateway takes"
RATE_LIMIT_MESSAGE = "the limit of this client is reached"
COMPRESSION_MESSAGE = (
    "the gateway chooses servers by the model in a message, and does not read compressed messages: "
    "send them uncompressed"
)

HOLD_FAILED_MESSAGE = (
    "no server is ready, and the control plane of the gateway, which starts one, does not answer"
)

_OVERFLOW, _TIMEOUT, _HOLD_FAILED = "UO", "UT", "ext_authz_error"
_RATE_LIMITED, _NOT_READ = "local_rate_limited", "grpc_field_extraction_INVALID_ARGUMENT"
_OWN_ANSWERS = ("UH", "UT", "LR", "UR", "UF", "UC", "UAEX", "DPE", "UPE", "URX", "UMSDR", "NC")
"""Response flags of answers that Envoy makes up."""

_IS_GRPC: EnvoyResource = {
    "header_filter": {
        "header": {"name": "content-type", "string_match": {"prefix": "application/grpc"}}
    }
}
_IS_COMPRESSED: EnvoyResource = {
    "header_filter": {
        "header": {
            "name": "grpc-encoding",
            "string_match": {"exact": "identity"},
            "invert_match": True,
        }
    }
}
_EXHAUSTED = [build_header(GRPC_STATUS_HEADER, str(RESOURCE_EXHAUSTED))]
_UNCOMPRESSED = [
    build_header(GRPC_STATUS_HEADER, str(UNIMPLEMENTED)),
    build_header("grpc-accept-encoding", "identity"),
]
_TOO_LATE = [build_header(GRPC_STATUS_HEADER, str(DEADLINE_EXCEEDED))]
_SOON = [build_header("retry-after", "1")]
_PUSHBACK = [build_header("grpc-retry-pushback-ms", "1000")]
_SOON_OVER_GRPC = [*_EXHAUSTED, *_PUSHBACK]


def build_local_replies(inputs: GatewayInputs) -> EnvoyResource:
    """The `local_reply_config` of the connection manager. The first mapper that matches is used."""
    compressed = _build_mapper(
        [_has_details(_NOT_READ), _IS_GRPC, _IS_COMPRESSED],
        text=COMPRESSION_MESSAGE,
        headers=_UNCOMPRESSED,
    )
    return {
        "mappers": [
            _build_mapper(
                [_has_flags(_OVERFLOW), _IS_GRPC], text=OVERFLOW_MESSAGE, headers=_SOON_OVER_GRPC
            ),
            _build_mapper(
                [_has_flags(_OVERFLOW)], json=OVERFLOW_MESSAGE, headers=_SOON, status=429
            ),
            _build_mapper([_has_flags(_TIMEOUT), _IS_GRPC], headers=_TOO_LATE),
            _build_mapper(
                [_has_details(_HOLD_FAILED), _IS_GRPC], text=HOLD_FAILED_MESSAGE, headers=_PUSHBACK
            ),
            _build_mapper([_has_details(_HOLD_FAILED)], json=HOLD_FAILED_MESSAGE, headers=_SOON),
            _build_mapper([_has_details(_RATE_LIMITED), _IS_GRPC], text=RATE_LIMIT_MESSAGE),
            _build_mapper([_has_details(_RATE_LIMITED)], json=RATE_LIMIT_MESSAGE),
            _build_mapper([_has_status(429), _IS_GRPC], headers=_EXHAUSTED),
            _build_mapper([_has_status(413), _IS_GRPC], text=SIZE_MESSAGE, headers=_EXHAUSTED),
            _build_mapper([_has_status(413)], json=SIZE_MESSAGE),
            *([compressed] if inputs.reads_models() else []),
            _build_mapper([_IS_GRPC]),
            _build_mapper([_has_flags(*_OWN_ANSWERS)], json="%LOCAL_REPLY_BODY%"),
        ]
    }


def _build_mapper(
    filters: list[EnvoyResource],
    *,
    text: str = "",
    json: str = "",
    headers: list[EnvoyResource] | None = None,
    status: int = 0,
) -> EnvoyResource:
    both: EnvoyResource = {"and_filter": {"filters": filters}}
    mapper: EnvoyResource = {"filter": both if len(filters) > 1 else filters[0]}
    if text:
        mapper["body"] = {"inline_string": text}
    if json:
        mapper["body_format_override"] = {"json_format": {"error": json}}
    if headers:
        mapper["headers_to_add"] = headers
    if status:
        mapper["status_code"] = status
    return mapper


def _has_status(status: int) -> EnvoyResource:
    value = {"default_value": status, "runtime_key": "kilonova.status"}
    return {"status_code_filter": {"comparison": {"op": "EQ", "value": value}}}


def _has_flags(*flags: str) -> EnvoyResource:
    return {"response_flag_filter": {"flags": list(flags)}}


def _has_details(prefix: str) -> EnvoyResource:
    """What made the answer; a response flag is only set after that."""
    return {
        "extension_filter": build_extension(
            "envoy.access_loggers.extension_filters.cel",
            "envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter",
            expression=f"response.code_details.startsWith('{prefix}')",
        )
    }
