"""Labels of metrics: for Prometheus' configuration, and for monitors of its operator. Pure."""

import re
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.api.serving import names

SUPERSONIC_CLUSTER = "triton_grpc_service"
"""What SuperSONIC's dashboards call the cluster of the servers in Envoy."""
SUPERSONIC_GROUP = "triton"
"""The group of servers of its releases."""

APP_LABEL = "app.kubernetes.io/part-of"
"""The label of pods that becomes `app`: that of SuperSONIC's releases is `supersonic`."""

_POD_LABEL = "__meta_kubernetes_pod_label_"
_PORT_NAME = "__meta_kubernetes_pod_container_port_name"


@dataclass(frozen=True, slots=True)
class Relabelling:
    """Sets a label from another, or keeps what matches."""

    source: str
    target: str = ""
    """Empty: only what matches is kept."""
    regex: str = "(.*)"
    replacement: str = "$1"

    def render(self) -> JsonObject:
        """For Prometheus' configuration."""
        if not self.target:
            return {"source_labels": [self.source], "regex": self.regex, "action": "keep"}
        return {
            "source_labels": [self.source],
            "regex": self.regex,
            "target_label": self.target,
            "replacement": self.replacement,
        }

    def render_for_operator(self) -> JsonObject:
        """For a monitor of the Prometheus operator."""
        return {
            "sourceLabels": [self.source],
            "regex": self.regex,
            "targetLabel": self.target,
            "replacement": self.replacement,
            "action": "replace",
        }


CLUSTER_RELABELLINGS = (
    Relabelling("envoy_cluster_name", "server", "server/(.+)"),
    Relabelling(
        "envoy_cluster_name",
        "envoy_cluster_name",
        f"server/{SUPERSONIC_GROUP}",
        SUPERSONIC_CLUSTER,
    ),
)
"""Of the metrics of gateways: the group of servers, and the name that SuperSONIC's dashboards ask
for."""


def build_scrape_configs() -> list[JsonObject]:
    """The jobs of gateways, servers, and Kilonova itself, for a Prometheus without operator."""
    gateways = _build_job(
        "kilonova-serving-gateways",
        _select_role("gateway"),
        Relabelling(_PORT_NAME, regex="stats"),
        *_list_service_labels(),
        path="/stats/prometheus",
    )
    gateways["metric_relabel_configs"] = [each.render() for each in CLUSTER_RELABELLINGS]
    servers = _build_job(
        "kilonova-serving-servers",
        _select_role("server"),
        Relabelling(_PORT_NAME, regex="metrics"),
        *_list_service_labels(),
        Relabelling(_name_pod_label(names.SERVER), "server"),
    )
    control_plane = _build_job(
        "kilonova-serving",
        Relabelling(_name_pod_label("app.kubernetes.io/name"), regex="kilonova-serving"),
        Relabelling(_PORT_NAME, regex="health"),
        Relabelling("__meta_kubernetes_pod_name", "pod"),
        Relabelling("__meta_kubernetes_namespace", "namespace"),
    )
    return [gateways, servers, control_plane]


def _select_role(role: names.Role) -> Relabelling:
    return Relabelling(_name_pod_label(names.ROLE), regex=role)


def _list_service_labels() -> tuple[Relabelling, ...]:
    return (
        Relabelling(_name_pod_label(names.SERVICE), "release"),
        Relabelling("__meta_kubernetes_namespace", "namespace"),
        Relabelling("__meta_kubernetes_pod_name", "pod"),
        Relabelling(_name_pod_label(APP_LABEL), "app"),
    )


def _name_pod_label(label: str) -> str:
    return _POD_LABEL + re.sub(r"[^a-zA-Z0-9_]", "_", label)


def _build_job(name: str, *relabellings: Relabelling, path: str = "/metrics") -> JsonObject:
    return {
        "job_name": name,
        "scrape_interval": "5s",
        "metrics_path": path,
        "kubernetes_sd_configs": [{"role": "pod"}],
        "relabel_configs": [each.render() for each in relabellings],
    }
