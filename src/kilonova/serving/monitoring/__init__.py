"""Monitoring of services: labels of metrics, dashboards of Grafana.

Metrics have the names of their programs (`envoy_…`, `nv_…`, `vllm:…`) and the labels `release` (the
name of the service), `namespace`, `pod`, `app` and `server` (the group), by which dashboards select
them: those of SuperSONIC, too. `deploy/monitoring` is written from here (`tools.monitoring`).
"""

from kilonova.serving.monitoring.boards import build_serving_board, build_supersonic_board
from kilonova.serving.monitoring.relabelling import (
    CLUSTER_RELABELLINGS,
    Relabelling,
    build_scrape_configs,
)

__all__ = [
    "CLUSTER_RELABELLINGS",
    "Relabelling",
    "build_scrape_configs",
    "build_serving_board",
    "build_supersonic_board",
]
