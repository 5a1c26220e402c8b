"""The cluster benchmark runs, with tiny inputs."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from bench.__main__ import app

TINY = {
    "nodes": 4,
    "pods": 20,
    "idle-nodes": 6,
    "idle-seconds": 1,
    "connections": 4,
    "lists": 1,
    "watches": 3,
    "watch-seconds": 1,
}


def run_cluster(*options: str) -> str:
    inputs = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    result = CliRunner().invoke(app, ["cluster", *inputs, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_embedded_cluster_is_measured_without_peer(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    output = run_cluster("--no-peer", "--json", str(file))
    assert "6 idle nodes: CPU, of one core" in output
    rows = {row["title"]: row for row in msgspec.json.decode(file.read_bytes())["rows"]}
    assert rows["20 pods created and running"]["ours"] > 0
    assert rows["20 pods, 3 watches × 100 events/s, delivered"]["ours"] == 100
    assert all(row["peer"] is None for row in rows.values())


@pytest.mark.usefixtures("control_plane_binaries")
def test_kubernetes_is_measured_in_the_same_table(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    run_cluster("--only", "full", "--json", str(file))
    rows = msgspec.json.decode(file.read_bytes())["rows"]
    assert rows
    assert all(row["peer"] is not None for row in rows)
