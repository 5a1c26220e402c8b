"""The rows of the fleet benchmark about the swap of a dead node, with quick inputs."""

import json
import subprocess
import sys
from pathlib import Path


def test_swap_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", "fleet", "--quick", "--only", "swap", "--no-peer"]
    subprocess.run([*command, "--json", str(out)], check=True, capture_output=True, timeout=240)
    seconds, replaced = json.loads(out.read_text())["rows"]
    assert seconds["target"] == "≤ 1 s"
    assert seconds["ours"] > 0
    assert (replaced["target"], replaced["ours"]) == ("≤ 0", 0)
