"""Monitors of the Prometheus operator for gateways and servers. Pure."""

from collections.abc import Iterator

from kilonova.api.grove import names as grove_names
from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceServiceSpec, names
from kilonova.serving.builders.identity import Identity
from kilonova.serving.builders.runtimes import list_ports
from kilonova.serving.monitoring.relabelling import CLUSTER_RELABELLINGS

_STATS_PATH = "/stats/prometheus"
_METRICS_PATH = "/metrics"


def build_pod_monitor(identity: Identity, spec: InferenceServiceSpec) -> JsonObject:
    """Of the gateways, whose Service does not have their port of statistics."""
    return {
        "metadata": identity.build_metadata(names.build_gateway(identity.name)),
        "spec": {
            "selector": {"matchLabels": identity.build_pod_labels("gateway")},
            "podMetricsEndpoints": [
                {
                    "port": "stats",
                    "path": _STATS_PATH,
                    "interval": spec.monitoring.scrape_interval,
                    "relabelings": _build_relabelings(identity),
                    "metricRelabelings": [
                        each.render_for_operator() for each in CLUSTER_RELABELLINGS
                    ],
                }
            ],
        },
    }


def build_service_monitors(identity: Identity, spec: InferenceServiceSpec) -> Iterator[JsonObject]:
    """Of each group of servers with a port of metrics."""
    for group in spec.servers:
        port = next((name for name, port in list_ports(group) if port == group.ports.metrics), "")
        if not port:
            continue
        name = names.build_server_service(identity.name, group.name)
        yield {
            "metadata": identity.build_metadata(name, {names.SERVER: group.name}),
            "spec": {
                "selector": {
                    "matchLabels": {names.SERVICE: identity.name, names.SERVER: group.name}
                },
                "endpoints": [
                    {
                        "port": port,
                        "path": _METRICS_PATH,
                        "interval": spec.monitoring.scrape_interval,
                        "relabelings": _build_relabelings(identity, group.name),
                    }
                ],
            },
        }


def _build_relabelings(identity: Identity, group: str = "") -> list[JsonObject]:
    """Labels by which dashboards, those of SuperSONIC among them, select a service; the operator
    itself adds `namespace` and `pod`."""
    labels = {"release": identity.name}
    if app := identity.metadata.labels.get(grove_names.NAME):
        labels["app"] = app
    if group:
        labels["server"] = group
    return [
        {"targetLabel": name, "replacement": value, "action": "replace"}
        for name, value in labels.items()
    ]
