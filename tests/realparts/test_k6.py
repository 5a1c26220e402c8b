"""k6 of the real parts runs a script."""

import json
import subprocess
from pathlib import Path

from tools.realparts.parts.k6 import COMMAND

SCRIPT = """
import { check } from 'k6';
export const options = { iterations: 7, vus: 1 };
export default function () { check(1, { one: (number) => number === 1 }); }
"""


def test_script_is_run_as_often_as_it_says(k6_part: Path, tmp_path: Path) -> None:
    script, summary = tmp_path / "script.js", tmp_path / "summary.json"
    script.write_text(SCRIPT)
    command = [k6_part / COMMAND, "run", "--quiet", f"--summary-export={summary}", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(summary.read_text())["metrics"]["iterations"]["count"] == 7
