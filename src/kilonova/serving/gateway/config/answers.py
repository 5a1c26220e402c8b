"""What the gateway itself answers, instead of a server.

Over gRPC the HTTP status becomes a gRPC status (404 UNIMPLEMENTED, 403 PERMISSION_DENIED, 503
UNAVAILABLE), and the message `grpc-message`; over HTTP the answer has a body of JSON.
"""

import json
from collections.abc import Iterator

from kilonova.serving.gateway.config.envoy_types import build_header
from kilonova.serving.gateway.model import EnvoyResource

GRPC: EnvoyResource = {"prefix": "/", "grpc": {}}
ANY: EnvoyResource = {"prefix": "/"}

CLOSED_MESSAGE = "the gateway is closed: its configuration has a problem, see the service's status"


def build_refusals(
    match: EnvoyResource, status: int, message: str, headers: dict[str, str] | None = None
) -> Iterator[EnvoyResource]:
    """The routes that refuse requests, over gRPC and over HTTP."""
    if "grpc" not in match:
        yield build_refusal(match | {"grpc": {}}, status, message, headers)
    yield build_refusal(match, status, message, headers)


def build_refusal(
    match: EnvoyResource, status: int, message: str, headers: dict[str, str] | None = None
) -> EnvoyResource:
    """A route that refuses the requests that it matches."""
    body = message if "grpc" in match else json.dumps({"error": message})
    added = [build_header(name, value) for name, value in (headers or {}).items()]
    if "grpc" not in match:
        added.insert(0, build_header("content-type", "application/json"))
    route: EnvoyResource = {
        "match": match,
        "direct_response": {"status": status, "body": {"inline_string": body}},
    }
    if added:
        route["response_headers_to_add"] = added
    return route


def build_closed_routes() -> list[EnvoyResource]:
    """The routes of a gateway whose configuration has a problem. It is never open instead."""
    return list(build_refusals(ANY, 503, CLOSED_MESSAGE))


def build_unknown_routes() -> list[EnvoyResource]:
    """The last routes: nothing here speaks what the client does."""
    return [
        build_refusal(GRPC, 404, "no server of this service speaks gRPC"),
        build_refusal(ANY, 404, "no server of this service speaks HTTP: use gRPC"),
    ]
