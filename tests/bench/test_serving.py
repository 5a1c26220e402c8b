"""The benchmark of inference services, with quick inputs and without peers that are large."""

import json
import math
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from bench.__main__ import app
from bench.serving.step import find_recovery
from kilonova.serving.loadtest.recorder import Sample


def test_gateways_are_measured_beside_supersonic(tmp_path: Path) -> None:
    rows = measure(tmp_path, "proxy", "kill")
    cpu = [row for row in rows.values() if row["title"].endswith("CPU of the gateway")]
    assert len(cpu) == 10
    assert all(row["ours"] > 0 and row["peer"] > 0 for row in cpu)
    assert rows["kill -9 of one of two servers: failed requests"]["ours"] == 0
    assert rows["kill -9 of one of two servers: failed requests"]["peer"] > 0


def test_requests_without_a_server_are_measured(tmp_path: Path) -> None:
    rows = measure(tmp_path, "cold")
    answered = rows["no server, 10 requests: answered"]
    assert (answered["ours"], answered["peer"]) == (10, 0)
    assert rows["no server, 1 request: answered after"]["ours"] > 0


def measure(folder: Path, *families: str) -> dict[str, Any]:
    """The rows of some families, by their titles."""
    file = folder / "figures.json"
    words = [word for each in families for word in ("--only", each)]
    command = ["serving", "--quick", *words, "--json", str(file)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return {row["title"]: row for row in json.loads(file.read_text())["rows"]}


def test_recovery_is_the_first_second_after_which_all_are_in_time() -> None:
    in_time = [build_sample(10 + second / 10, 0.1) for second in range(60)]
    assert find_recovery(in_time) == 0
    assert find_recovery([*in_time, build_sample(9, 2)]) == 0, "before the step"
    late = [build_sample(12 + number / 10, 2) for number in range(5)]
    assert find_recovery([*in_time, *late]) == 3


def test_latency_that_stays_high_never_recovers() -> None:
    assert find_recovery([build_sample(10 + second, 2) for second in range(5)]) == math.inf


def build_sample(start: float, latency: float) -> Sample:
    return Sample(start, start, start + latency, "OK", True, None, None, 0, 0)
