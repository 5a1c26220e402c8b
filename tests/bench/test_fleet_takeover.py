"""The rows of the fleet benchmark about the takeover of the lead, with quick inputs."""

import json
import subprocess
import sys
from pathlib import Path


def test_takeover_is_measured_on_one_and_three_stores(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", "fleet", "--quick", "--only", "takeover"]
    subprocess.run([*command, "--json", str(out)], check=True, capture_output=True, timeout=240)
    rows = json.loads(out.read_text())["rows"]
    assert [row["target"] for row in rows] == ["≤ 5 s", "≤ 5 s"]
    assert all(row["ours"] >= 2 for row in rows), "not before the lease of 3 s has expired"
