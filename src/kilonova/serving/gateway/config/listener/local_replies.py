"""What Envoy's own answers look like: a gRPC status, or a body of JSON, that says what happened."""

from kilonova.serving.gateway.config.envoy_types import build_header
from kilonova.serving.gateway.config.filters.grpc_status import (
    GRPC_STATUS_HEADER,
    RESOURCE_EXHAUSTED,
)
from kilonova.serving.gateway.model import EnvoyResource

_IS_GRPC: EnvoyResource = {
    "header_filter": {
        "header": {
            "name": "content-type",
            "string_match": {"prefix": "application/grpc"},
        }
    }
}
_IS_429: EnvoyResource = {
    "status_code_filter": {
        "comparison": {
            "op": "EQ",
            "value": {"default_value": 429, "runtime_key": "kilonova.unused"},
        }
    }
}


def build_local_replies() -> EnvoyResource:
    """The `local_reply_config` of the connection manager. The first mapper that matches is used."""
    exhausted = [build_header(GRPC_STATUS_HEADER, str(RESOURCE_EXHAUSTED))]
    return {
        "mappers": [
            {"filter": _both(_IS_429, _IS_GRPC), "headers_to_add": exhausted},
        ]
    }


def _both(*filters: EnvoyResource) -> EnvoyResource:
    return {"and_filter": {"filters": list(filters)}}
