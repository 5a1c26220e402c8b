"""Writes the manifests of `deploy/monitoring/operator` that contain the rules and dashboards beside
them: `python -m tools.monitoring`."""

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "deploy" / "monitoring"
_HEADER = "# Written by `python -m tools.monitoring`: change {source} instead.\n"
_LABELS = {"app.kubernetes.io/part-of": "kilonova"}


def render_rules(folder: Path = FOLDER) -> str:
    """The PrometheusRule of the rule file."""
    rules = yaml.safe_load((folder / "gpu.rules.yaml").read_text())
    return _render("../gpu.rules.yaml", _rule_manifest(rules))


def render_dashboards(folder: Path = FOLDER) -> str:
    """A ConfigMap with the dashboards, for Grafana's sidecar."""
    found = sorted((folder / "dashboards").glob("*.json"))
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "kilonova-dashboards",
            "labels": {**_LABELS, "grafana_dashboard": "1"},
        },
        "data": {each.name: each.read_text() for each in found},
    }
    return _render("../dashboards", manifest)


def _rule_manifest(rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "kilonova-gpu", "labels": _LABELS},
        "spec": rules,
    }


def _render(source: str, manifest: dict[str, Any]) -> str:
    text = yaml.safe_dump(manifest, sort_keys=False, width=100)
    return _HEADER.format(source=source) + text


def main() -> None:
    """Write both."""
    (FOLDER / "operator" / "prometheusrule.yaml").write_text(render_rules())
    (FOLDER / "operator" / "dashboards.yaml").write_text(render_dashboards())


if __name__ == "__main__":
    main()
