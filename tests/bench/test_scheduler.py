"""The scheduler benchmark, with quick inputs."""

import json
import subprocess
import sys
from pathlib import Path


def test_decisions_and_memory_are_measured(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", "scheduler", "--quick", "--json", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    rows = json.loads(out.read_text())["rows"]
    deciding = ["pods/s", "ms", "ms", "ms", "ms", "ms", "s"]
    preemption = [*(6 * ["ms"]), "s", "ms", "ms", "ms", "ms"]
    assert [row["unit"] for row in rows] == [*deciding, *preemption, "MB"]
    assert all(row["ours"] > 0 for row in rows)
