"""Which statistics Envoy keeps: those that signals and dashboards read."""

from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.model import EnvoyResource

_KEPT_PREFIXES = (
    f"{stat_names.RATE_LIMIT_STAT_PREFIX}.",
    f"{stat_names.TOKEN_LIMIT_STAT_PREFIX}.",
    "connection_limit.",
    "control_plane.",
    f"http.{stat_names.HTTP_STAT_PREFIX}.",
    "listener.gateway.",
    "listener_local_ratelimit.",
    "listener_manager.",
    "local_rate_limit.",
    "server.",
)
_KEPT_OF_CLUSTERS = (
    "upstream_rq_.*",
    "upstream_cx_(active|total|connect_fail|connect_timeout|overflow|rx_bytes_total|tx_bytes_total)",
    "upstream_cx_destroy_(local|remote)_with_active_rq",
    "membership_.*",
    "health_check.(attempt|failure|healthy)",
    "outlier_detection.ejections_(active|enforced_total)",
    "circuit_breakers.default.rq_pending_open",
    "lb_healthy_panic",
    "update_(attempt|success|rejected)",
)
"""Envoy has four hundred of each cluster."""

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
            "stats_matcher": {"inclusion_list": {"patterns": _build_patterns()}},
            "histogram_bucket_settings": [
                {"match": {"suffix": "_time"}, "buckets": list(_LATENCY_BUCKETS_MS)}
            ],
        },
    }


def _build_patterns() -> list[EnvoyResource]:
    names = "|".join(_KEPT_OF_CLUSTERS)
    clusters = f"cluster\\.(server/[^.]+|hold/[^.]+|control-plane[^.]*)\\.({names})"
    return [
        *({"prefix": each} for each in _KEPT_PREFIXES),
        {"safe_regex": {"regex": clusters}},
    ]
