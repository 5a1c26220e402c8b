"""Requests that the gateway refuses, instead of sending them to a server.

Over gRPC the HTTP status becomes a gRPC status (404 UNIMPLEMENTED, 403 PERMISSION_DENIED, 503
UNAVAILABLE), and the message `grpc-message`; over HTTP the answer has a body of JSON.
"""

import json
from math import ceil

from kilonova.serving.gateway.config.envoy_types import build_header
from kilonova.serving.gateway.config.filters.grpc_status import build_grpc_status
from kilonova.serving.gateway.model import EnvoyResource

GRPC: EnvoyResource = {"prefix": "/", "grpc": {}}
ANY: EnvoyResource = {"prefix": "/"}

CLOSED_MESSAGE = "the gateway is closed: its configuration has a problem, see the service's status"


def build_refusal(
    match: EnvoyResource, status: int, message: str, *, retry_after: float | None = None
) -> EnvoyResource:
    """A route that refuses the requests that it matches; `retry_after` are seconds."""
    is_grpc = "grpc" in match
    headers = [] if retry_after is None else build_retry_hint(retry_after, is_grpc=is_grpc)
    if not is_grpc:
        headers.append(build_header("content-type", "application/json"))
    route: EnvoyResource = {
        "match": match,
        "direct_response": {
            "status": status,
            "body": {"inline_string": message if is_grpc else format_error(message)},
        },
    }
    if headers:
        route["response_headers_to_add"] = headers
    if status == 429 and is_grpc:
        route["typed_per_filter_config"] = build_grpc_status()
    return route


def build_retry_hint(seconds: float, *, is_grpc: bool) -> list[EnvoyResource]:
    """Headers that specify when to try again."""
    if is_grpc:
        return [build_header("grpc-retry-pushback-ms", str(ceil(seconds * 1000)))]
    return [build_header("retry-after", str(max(1, ceil(seconds))))]


def format_error(message: str) -> str:
    """The body of an error over HTTP, as the v2 protocol has it."""
    return json.dumps({"error": message})


def build_closed_routes() -> list[EnvoyResource]:
    """The routes of a gateway whose configuration has a problem. It is never open instead."""
    return [build_refusal(match, 503, CLOSED_MESSAGE) for match in (GRPC, ANY)]
