"""Names of Envoy's clusters and statistics, by which signals are read.

Written by `gateway.config`, read by `signals`.
"""

CONTROL_PLANE_CLUSTER = "control-plane"
"""ADS, held requests, and answers for the whole service over gRPC."""

CONTROL_PLANE_HTTP_CLUSTER = "control-plane-http"
"""Answers for the whole service over HTTP."""


def build_server_cluster(group: str) -> str:
    """The cluster of a group of servers: its `upstream_rq_active` are the requests in flight, its
    `upstream_rq_pending_active` those that wait for a server."""
    return f"server/{group}"


def build_hold_cluster(group: str) -> str:
    """The cluster by which requests are held when a group has no server: its `upstream_rq_active`
    are the requests held."""
    return f"hold/{group}"
