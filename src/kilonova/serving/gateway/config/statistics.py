"""Which statistics Envoy keeps: those that signals and dashboards read."""

from kilonova.serving.gateway.model import EnvoyResource

_KEPT_PREFIXES = (
    "client_requests.",
    "client_tokens.",
    "cluster.control-plane",
    "cluster.hold/",
    "cluster.server/",
    "connection_limit.",
    "control_plane.",
    "http.ingress_grpc.",
    "listener.gateway.",
    "listener_manager.",
    "server.",
)

_LATENCY_BUCKETS_MS = (
    *(0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750),
    *(1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 20_000, 30_000, 60_000, 300_000, 600_000),
)


def build_stats_config() -> EnvoyResource:
    """The fields of the bootstrap for statistics."""
    return {
        # Distributions are made when they are read: always of now, and nothing is done at rest.
        "stats_flush_on_admin": True,
        "stats_config": {
            "stats_matcher": {
                "inclusion_list": {"patterns": [{"prefix": each} for each in _KEPT_PREFIXES]}
            },
            "histogram_bucket_settings": [
                {"match": {"suffix": "_time"}, "buckets": list(_LATENCY_BUCKETS_MS)}
            ],
        },
    }
