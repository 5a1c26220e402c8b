"""The benchmark of workloads runs, with so few pods that nothing is worth timing."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from bench.__main__ import app
from bench.workloads.writes import writes_in
from tests.harness.controlplane import HOW_TO_GET, binaries

TINY = {"nodes": 4, "replicas": 4, "idle-sets": 3, "idle-seconds": 1}
NO_REST = ("--rest-looks", "1")
"""Where nothing is counted that might be written a while later."""


def run(tmp_path: Path, *options: str) -> dict[str, float]:
    """The figures of ours, by title."""
    file = tmp_path / "figures.json"
    inputs = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    options = (*inputs, *options, "--json", str(file))
    result = CliRunner().invoke(app, ["workloads", *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = msgspec.json.decode(file.read_bytes())["rows"]
    return {row["title"]: row["ours"] for row in rows}


def test_it_measures_a_set_on_the_embedded_cluster(tmp_path: Path) -> None:
    figures = run(tmp_path, "--only", "embedded", "--no-peer", *NO_REST)
    assert 0 < figures["kilonova up: 8 pods: created"] <= figures["kilonova up: 8 pods: ready"]
    assert figures["kilonova up: 4 → 8 pods: ready"] > 0
    assert figures["kilonova up: 8 pods deleted with all that made them"] > 0


def test_it_measures_a_set_beside_plain_requests_on_kubernetes(tmp_path: Path) -> None:
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    figures = run(tmp_path, "--only", "kubernetes")
    assert figures["Kubernetes: 8 pods: created, to plain requests"] > 0
    assert figures["Kubernetes: writes per pod: POST pods"] == 1
    assert figures["Kubernetes: no-op reconcile: writes"] == 0


def test_it_measures_sets_at_rest(tmp_path: Path) -> None:
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    figures = run(tmp_path, "--only", "idle", *NO_REST)
    assert figures["Kubernetes: 3 idle sets: memory (RSS)"] > 0


def test_only_what_the_operator_writes_is_counted() -> None:
    lines = [
        _line("grove.io", "podcliques", "status", "PATCH", "200", 3),
        _line("", "pods", "", "POST", "201", 2),
        _line("", "pods", "", "POST", "403", 9),
        _line("", "pods", "binding", "POST", "201", 9),
        _line("", "endpoints", "", "PUT", "200", 9),
        _line("grove.io", "podcliques", "", "WATCH", "200", 9),
    ]
    assert writes_in("\n".join(lines)) == {
        ("podcliques/status", "PATCH"): 3,
        ("pods", "POST"): 2,
    }


def _line(group: str, resource: str, part: str, verb: str, code: str, count: int) -> str:
    labels = f'code="{code}",group="{group}",resource="{resource}",subresource="{part}"'
    return f'apiserver_request_total{{{labels},verb="{verb}"}} {count}'
