"""How many requests a group of servers takes at the same time, and how many wait."""

from kilonova.api.serving import ServerGroup
from kilonova.serving.gateway.model import EnvoyResource
from kilonova.serving.gateway.stat_names import ServerPort

_NO_LIMIT = 1_000_000_000


def build_unlimited() -> EnvoyResource:
    """Thresholds that are never reached. Envoy's own are 1024, and 3 for retries."""
    return {
        "max_connections": _NO_LIMIT,
        "max_pending_requests": _NO_LIMIT,
        "max_requests": _NO_LIMIT,
        "max_retries": _NO_LIMIT,
    }


def build_circuit_breakers(group: ServerGroup, port: ServerPort, servers: int) -> EnvoyResource:
    """The circuit breakers of a cluster with so many servers.

    Requests wait for a connection. To limit the requests that a server works on, its connections
    are limited: over HTTP/1 to as many, over HTTP/2 to one that has so many streams. Each thread of
    Envoy has connections of its own, so the limit is one of each thread.
    """
    thresholds = build_unlimited()
    if can_overflow(group):
        # A request waits while its connection is made, too: those do not count as queued.
        per_server = (group.max_queued or 0) + (group.max_in_flight or 0)
        thresholds["max_pending_requests"] = min(per_server * max(1, servers), _NO_LIMIT)
    breakers: EnvoyResource = {"thresholds": [thresholds]}
    if group.max_in_flight is not None:
        connections = group.max_in_flight if port == "http" else 1
        breakers["per_host_thresholds"] = [{"max_connections": connections}]
    return breakers


def can_overflow(group: ServerGroup) -> bool:
    """Whether requests may be refused because too many wait: none waits without a limit of those in
    flight."""
    return group.max_queued is not None and group.max_in_flight is not None
