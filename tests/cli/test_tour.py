"""The tour in the README works as written."""

import re
import subprocess
import sys
from pathlib import Path

from tests.cli.command import Kilonova

ROOT = Path(__file__).parents[2]
START = 'make up ARGS="--detach --wait"'


def test_tour_in_the_readme_works_as_written(
    kilonova: Kilonova, tmp_path: Path, kubectl_path: Path
):
    """Runs every command in order; only the start differs: a free port, and no `make`."""
    command = " ".join(kilonova.command())
    commands = "\n".join(tour()).replace(START, f"{command} up --detach --wait --port 0")
    plugin = f"{sys.executable} -P -c 'from kilonova.cli.kubectl import main; main()'"
    for name, line in (("kilonova", command), ("kubectl-kilonova", plugin)):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        (tmp_path / name).chmod(0o755)
    environment = kilonova.environment()
    environment["PATH"] = f"{tmp_path}:{kubectl_path.parent}:{environment['PATH']}"
    kilonova.stop_after_test(tmp_path / ".local/share/kilonova/default")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands.replace('"$PWD/.venv/bin:$PATH"', '"$PATH"')],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for line in (
        "35 (35 ready)",
        "Smallest change: lower the minimum of group frontier-0-worker",
        "pod/two-gpus condition met",
        "Pod default/two-gpus (queue default) is placed: 1 pod on 1 node",
        "rejected",
        "Stopped.",
    ):
        assert line in done.stdout, done.stdout


def tour() -> list[str]:
    """The shell blocks of the README's tour."""
    text = (ROOT / "README.md").read_text()
    section = text.partition("## A five-minute tour\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert START in blocks[0]
    return blocks
