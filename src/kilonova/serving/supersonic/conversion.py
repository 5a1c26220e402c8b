"""From the values of a release to an InferenceService."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kilonova.api.serving import GROUP as API_GROUP
from kilonova.api.serving import VERSION, names
from kilonova.serving.supersonic.findings import Findings, ValuesError
from kilonova.serving.supersonic.gateways import build_auth, build_gateway, build_limits
from kilonova.serving.supersonic.labels import build_labels
from kilonova.serving.supersonic.loads import resolve_load
from kilonova.serving.supersonic.objects import build_collector, build_objects
from kilonova.serving.supersonic.servers import GROUP, build_server_group
from kilonova.serving.supersonic.values import Tree, Values, load_values
from kilonova.yaml_files import YamlFileError, read_yaml

_MAX_NAME = 63
_LONGEST = names.build_server_service("", GROUP)
_LONGEST_OF_COLLECTOR = build_collector("")
"""What the longest name of a Service adds to that of the instance."""
_is_service_name = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch


@dataclass(frozen=True, slots=True)
class Conversion:
    """What values become."""

    service: Tree
    """The InferenceService."""
    objects: tuple[Tree, ...]
    """Services and Ingresses by names that SuperSONIC's users know."""
    warnings: tuple[str, ...]
    """Keys with another effect than one might expect, and why."""


def read_values(path: Path) -> Mapping[str, Any]:
    """The content of a values file; `ValuesError` if it is not one."""
    try:
        content = read_yaml(path)
    except YamlFileError as error:
        raise ValuesError((str(error),)) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValuesError((f"{path} is no values file: write KEY: VALUE lines",))
    return content  # pyright: ignore[reportUnknownVariableType]


def convert_values(
    values: Mapping[str, Any], release: str, namespace: str, prometheus: str = ""
) -> Conversion:
    """Convert the values of a release; `ValuesError` names everything that cannot be honoured.

    `prometheus` is the Prometheus of the installation, which answers queries when the values name
    no other.
    """
    findings = Findings()
    loaded = load_values(values, findings)
    name = _choose_name(loaded, release, findings)
    service: Tree = {
        "apiVersion": f"{API_GROUP}/{VERSION}",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace, "labels": build_labels(name)},
        "spec": _build_spec(loaded, name, prometheus, findings),
    }
    objects = build_objects(loaded, name, namespace, findings)
    findings.raise_problems()
    return Conversion(service, tuple(objects), tuple(dict.fromkeys(findings.warnings)))


def _choose_name(values: Values, release: str, findings: Findings) -> str:
    name = (values.text("nameOverride") or release)[:_MAX_NAME].rstrip("-")
    if not _is_service_name(name):
        findings.refuse(
            "nameOverride",
            f"{name!r} cannot be the name of a Service: write lower-case letters, digits and "
            "hyphens, beginning with a letter",
        )
    suffix = _LONGEST_OF_COLLECTOR if values.flag("metricsCollector.enabled") else _LONGEST
    if len(f"{name}{suffix}") > _MAX_NAME:
        findings.refuse(
            "nameOverride",
            f"{name!r} has {len(name)} characters, and the Service NAME{suffix} leaves "
            f"{_MAX_NAME - len(suffix)}: choose a shorter one, or another name of the release",
        )
    return name


def _build_spec(values: Values, name: str, prometheus: str, findings: Findings) -> Tree:
    load = resolve_load(values, prometheus, findings)
    spec: Tree = {
        "servers": [build_server_group(values, name, load, findings)],
        "gateway": build_gateway(values, name, findings),
    }
    if auth := build_auth(values, findings):
        spec["auth"] = auth
    if limits := build_limits(values, load, findings):
        spec["limits"] = limits
    if monitoring := _build_monitoring(values, findings):
        spec["monitoring"] = monitoring
    return spec


def _build_monitoring(values: Values, findings: Findings) -> Tree:
    monitoring: Tree = {}
    if values.flag("prometheus.enabled"):
        monitoring["serviceMonitors"] = True
        monitoring["scrapeInterval"] = values.text("prometheus.server.global.scrape_interval")
        findings.warn(
            "prometheus.enabled",
            "no Prometheus is installed: ServiceMonitors are created where the Prometheus operator "
            "is; autoscaler and limits need neither",
        )
    if values.flag("grafana.enabled"):
        monitoring["dashboards"] = True
        findings.warn(
            "grafana.enabled",
            "no Grafana is installed: the dashboards are in a ConfigMap with the label "
            "grafana_dashboard",
        )
    return monitoring
