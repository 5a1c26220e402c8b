"""The rows of the fleet benchmark about instances, with quick inputs."""

import json
import subprocess
import sys
from pathlib import Path


def test_allocation_and_fit_are_measured(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", "fleet", "--quick"]
    families = ["--only", "allocation", "--only", "fit"]
    subprocess.run([*command, *families, "--json", str(out)], check=True, capture_output=True)
    rows = json.loads(out.read_text())["rows"]
    assert [(row["unit"], row["target"]) for row in rows] == [
        ("ms", "≤ 20 ms"),
        ("s", "≤ 1 s"),
        ("s", "≤ 1 s"),
    ]
    assert all(row["ours"] > 0 for row in rows)
