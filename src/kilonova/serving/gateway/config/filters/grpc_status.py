"""The gRPC status of refusals, where Envoy's is not what clients expect.

Envoy turns the HTTP status of its own answers into a gRPC status, and 429 and 504 into UNAVAILABLE,
which clients try again. The client of a limit is to see RESOURCE_EXHAUSTED, that of a timeout
DEADLINE_EXCEEDED: where Envoy makes up such an answer, a header names the status
(`listener.local_replies`), and this filter puts it in place. It is only on the path of requests
that may be refused so.
"""

from kilonova.serving.gateway.config.envoy_types import build_enabled, build_extension, build_typed
from kilonova.serving.gateway.model import EnvoyResource

GRPC_STATUS_FILTER = "grpc-status"
GRPC_STATUS_HEADER = "x-kilonova-grpc-status"
"""In an answer of Envoy's own: the gRPC status that it is to have."""
DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED = 4, 8, 12

_PACKAGE = "envoy.extensions.filters.http.header_mutation.v3"


def build_grpc_status_filter() -> EnvoyResource:
    """The filter."""
    status = {"key": "grpc-status", "value": f"%RESP({GRPC_STATUS_HEADER})%"}
    return build_extension(
        GRPC_STATUS_FILTER,
        f"{_PACKAGE}.HeaderMutation",
        mutations={
            "response_mutations": [
                {"append": {"header": status, "append_action": "OVERWRITE_IF_EXISTS"}},
                {"remove": GRPC_STATUS_HEADER},
            ]
        },
    )


def build_grpc_status() -> dict[str, EnvoyResource]:
    """The `typed_per_filter_config` of a route whose requests may be refused so."""
    return {GRPC_STATUS_FILTER: build_enabled(build_typed(f"{_PACKAGE}.HeaderMutationPerRoute"))}
