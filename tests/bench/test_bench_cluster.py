"""The benchmark of a whole cluster runs, on one so small that nothing is worth timing."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from bench.__main__ import app
from tests.harness.controlplane import HOW_TO_GET, binaries

TINY = {
    "nodes": 4,
    "pods": 20,
    "idle-nodes": 6,
    "idle-seconds": 1,
    "watches": 3,
    "watch-seconds": 1,
}


def run(*options: str) -> str:
    inputs = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    result = CliRunner().invoke(app, ["cluster", *inputs, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_it_measures_the_embedded_cluster_alone(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    output = run("--no-peer", "--json", str(file))
    assert "6 nodes at rest, of a core" in output
    rows = {row["title"]: row for row in msgspec.json.decode(file.read_bytes())["rows"]}
    assert rows["20 pods created and running"]["ours"] > 0
    assert rows["20 pods, 3 watches × 100 events/s, delivered"]["ours"] == 100
    assert all(row["peer"] is None for row in rows.values())


def test_kubernetes_plays_in_the_same_table(tmp_path: Path) -> None:
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    file = tmp_path / "figures.json"
    run("--only", "full", "--json", str(file))
    rows = msgspec.json.decode(file.read_bytes())["rows"]
    assert rows
    assert all(row["peer"] is not None for row in rows)
