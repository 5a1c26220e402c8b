"""Names of Envoy's clusters and statistics, by which signals are read.

Written by `gateway.config`, read by `signals`.
"""

from typing import Literal

ServerPort = Literal["grpc", "http"]
"""The ports of a server that get requests."""

SERVER_PORTS: tuple[ServerPort, ...] = ("grpc", "http")

HTTP_STAT_PREFIX = "ingress_grpc"
"""The prefix of statistics of requests (`http.ingress_grpc.downstream_rq_time`), as SuperSONIC's
dashboards know it. It counts both ports."""

RATE_LIMIT_STAT_PREFIX = "client_requests"
"""The prefix of the limit of requests per client (`client_requests.http_local_rate_limit.…`)."""

TOKEN_LIMIT_STAT_PREFIX = "client_tokens"  # noqa: S105 - no secret
"""The prefix of the limit of tokens per client."""

CONTROL_PLANE_CLUSTER = "control-plane"
"""ADS, held requests, and answers for the whole service over gRPC."""

CONTROL_PLANE_HTTP_CLUSTER = "control-plane-http"
"""Answers for the whole service over HTTP."""

TRACING_CLUSTER = "tracing"
"""The collector of traces."""


def build_server_cluster(group: str) -> str:
    """The name by which statistics know a group of servers: its `upstream_rq_active` are the
    requests in flight, its `upstream_rq_pending_active` those that wait for a server. The clusters
    of both ports of the group count under this name together."""
    return f"server/{group}"


def build_upstream_cluster(group: str, port: ServerPort) -> str:
    """The cluster of one port of a group of servers, in routes and endpoints. Statistics know it by
    `build_server_cluster`."""
    return f"server/{group}/{port}"


def parse_upstream_cluster(name: str) -> str:
    """The group of a cluster that requests were sent to; empty if it is none of servers."""
    kind, _, rest = name.partition("/")
    return rest.partition("/")[0] if kind == "server" else ""


def build_hold_cluster(group: str) -> str:
    """The cluster by which requests are held when a group has no server: its `upstream_rq_active`
    are the requests held."""
    return f"hold/{group}"
