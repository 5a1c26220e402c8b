"""The workloads benchmark runs, with tiny inputs."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from bench.__main__ import app
from bench.workloads.write_counts import parse_write_counts

TINY = {
    "nodes": 2,
    "replicas": 2,
    "idle-sets": 2,
    "idle-seconds": 1,
    "scale-step": 1,
    "connections": 2,
}
NO_WAIT = ("--rest-looks", "1")
"""For rows that count no delayed status writes."""


def run_workloads(tmp_path: Path, *options: str) -> dict[str, float]:
    """The figures of ours, by title."""
    file = tmp_path / "figures.json"
    inputs = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    options = (*inputs, *options, "--json", str(file))
    result = CliRunner().invoke(app, ["workloads", *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = msgspec.json.decode(file.read_bytes())["rows"]
    return {row["title"]: row["ours"] for row in rows}


def test_set_is_measured_on_the_embedded_cluster(tmp_path: Path) -> None:
    figures = run_workloads(tmp_path, "--only", "embedded", "--no-peer", *NO_WAIT)
    assert 0 < figures["kilonova up: 4 pods: created"] <= figures["kilonova up: 4 pods: ready"]
    assert figures["kilonova up: 2 → 4 pods: ready"] > 0
    assert figures["kilonova up: 4 pods and their owners deleted"] > 0


@pytest.fixture(scope="module")
def kubernetes_figures(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, float]:
    """Both families on Kubernetes, measured on one control plane."""
    folder = tmp_path_factory.mktemp("kubernetes")
    return run_workloads(folder, "--only", "kubernetes", "--only", "idle")


def test_set_is_measured_with_plain_requests_on_kubernetes(
    kubernetes_figures: dict[str, float],
) -> None:
    figures = kubernetes_figures
    assert figures["Kubernetes: 4 pods: created, relative to plain requests"] > 0
    assert figures["Kubernetes: writes per pod: POST pods"] == 1
    assert figures["Kubernetes: no-op reconcile: writes"] == 0


def test_idle_sets_are_measured(kubernetes_figures: dict[str, float]) -> None:
    assert kubernetes_figures["Kubernetes: 2 idle sets: memory (RSS)"] > 0
    assert kubernetes_figures["Kubernetes: a set scaled by 1 and back, among them: CPU"] >= 0


def test_only_writes_of_the_operator_are_counted() -> None:
    lines = [
        _metric_line("grove.io", "podcliques", "status", "PATCH", "200", 3),
        _metric_line("", "pods", "", "POST", "201", 2),
        _metric_line("", "pods", "", "POST", "403", 9),
        _metric_line("", "pods", "binding", "POST", "201", 9),
        _metric_line("", "endpoints", "", "PUT", "200", 9),
        _metric_line("grove.io", "podcliques", "", "WATCH", "200", 9),
    ]
    assert parse_write_counts("\n".join(lines)) == {
        ("podcliques/status", "PATCH"): 3,
        ("pods", "POST"): 2,
    }


def _metric_line(group: str, resource: str, part: str, verb: str, code: str, count: int) -> str:
    labels = f'code="{code}",group="{group}",resource="{resource}",subresource="{part}"'
    return f'apiserver_request_total{{{labels},verb="{verb}"}} {count}'
