"""Writes `deploy/monitoring`: `python -m tools.monitoring`.

The dashboards of services and the scrape jobs of a Prometheus without operator come from
`kilonova.serving.monitoring`; the manifests of `operator` contain the rules and all dashboards.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kilonova.serving.monitoring import (
    build_scrape_configs,
    build_serving_board,
    build_supersonic_board,
)

FOLDER = Path(__file__).parents[1] / "deploy" / "monitoring"
_HEADER = "# Written by `python -m tools.monitoring`: change {source} instead.\n"
_LABELS = {"app.kubernetes.io/part-of": "kilonova"}
_SERVING = "src/kilonova/serving/monitoring"


def render_files(folder: Path = FOLDER) -> dict[str, str]:
    """All that is written, by path; the dashboards of services come first, as others contain
    them."""
    boards = {
        "dashboards/serving.json": build_serving_board(),
        "dashboards/supersonic.json": build_supersonic_board(),
        "dashboards/supersonic-traces.json": build_supersonic_board(
            "supersonic-traces", "SuperSONIC, with traces", has_traces=True
        ),
    }
    own = {path: json.dumps(each.render(), indent=2) + "\n" for path, each in boards.items()}
    return {
        **own,
        "serving.prometheus.yaml": render_scrape_configs(),
        "operator/prometheusrule.yaml": render_rules(folder),
        "operator/dashboards.yaml": render_dashboards(folder, own),
    }


def render_rules(folder: Path = FOLDER) -> str:
    """A PrometheusRule for each rule file."""
    return "---\n".join(_render_rule_files(folder))


def _render_rule_files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.rules.yaml")):
        name = f"kilonova-{path.name.removesuffix('.rules.yaml')}"
        yield _render(f"../{path.name}", _rule_manifest(name, yaml.safe_load(path.read_text())))


def render_dashboards(folder: Path = FOLDER, changed: dict[str, str] | None = None) -> str:
    """A ConfigMap with the dashboards, for Grafana's sidecar."""
    found = {each.name: each.read_text() for each in (folder / "dashboards").glob("*.json")}
    found |= {Path(path).name: text for path, text in (changed or {}).items()}
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "kilonova-dashboards",
            "labels": {**_LABELS, "grafana_dashboard": "1"},
        },
        "data": dict(sorted(found.items())),
    }
    return _render("../dashboards", manifest)


def render_scrape_configs() -> str:
    """The jobs of services, for `scrape_configs` or `scrape_config_files` of Prometheus."""
    config = {"scrape_configs": build_scrape_configs()}
    return _render(_SERVING, config)


def _rule_manifest(name: str, rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name, "labels": _LABELS},
        "spec": rules,
    }


def _render(source: str, manifest: dict[str, Any]) -> str:
    text = yaml.safe_dump(manifest, sort_keys=False, width=100)
    return _HEADER.format(source=source) + text


def main() -> None:
    """Write everything."""
    for path, text in render_files().items():
        (FOLDER / path).write_text(text)


if __name__ == "__main__":
    main()
