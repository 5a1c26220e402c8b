"""The failover story of docs/fleet.md, run as it is written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "fleet.md"
SECTION = "## A failover to watch"


def read_story() -> list[str]:
    """The shell blocks of the section."""
    section = PAGE.read_text().partition(SECTION)[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def programs(tmp_path: Path, kubectl_path: Path) -> Path:
    """A folder with `kilonova` and `kubectl`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    kilonova = folder / "kilonova"
    kilonova.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m kilonova.cli "$@"\n')
    kilonova.chmod(0o755)
    (folder / "kubectl").symlink_to(kubectl_path)
    return folder


@pytest.mark.timeout(900)
def test_failover_story_runs_as_written(tmp_path: Path, programs: Path) -> None:
    data = tmp_path / "fleet"
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
    }
    script = "set -ex\n" + "".join(read_story()).replace("/tmp/fleet", str(data))
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=ROOT,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=800,
            check=False,
        )
    finally:
        stop = [sys.executable, "-P", "-m", "kilonova.cli", "down", "--data", str(data)]
        subprocess.run(stop, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Moved 2 instances from fra3 to" in done.stdout
    assert "llama goes from llama-2 to llama-1; llama-2 is masked" in done.stdout
    tables = done.stdout.split("inference-engine/llama: release ")
    assert [each.split(",")[0] for each in tables[1:]] == [
        "llama-1",
        "llama-1",
        "llama-1",
        "llama-2",
        "llama-1",
    ]
