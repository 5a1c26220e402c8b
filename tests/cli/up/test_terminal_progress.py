"""Progress on a terminal while a cluster starts."""

import contextlib
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import Kilonova
from tests.cli.up.test_cluster_lifecycle import read_until


@pytest.mark.parametrize("mode", [(), ("--detach", "--wait")], ids=["foreground", "background"])
def test_steps_are_shown_until_the_cluster_is_ready(
    kilonova: Kilonova, tmp_path: Path, mode: tuple[str, ...]
):
    data = tmp_path / "data"
    kilonova.stop_after_test(data)
    process, person = start_on_terminal(
        kilonova, "up", *mode, "--no-process-node", "--port", "0", "--data", data
    )
    output = read_until(person, b"stops it").decode()
    if mode:
        assert process.wait(30) == 0
    else:
        os.write(person, b"\x03")
        read_until(person, b"Stopping.")
        assert process.wait(30) == 0
    os.close(person)
    live, _, closing = output.partition("The cluster is ready")
    assert "API" in live
    assert "demo" in live
    assert re.search(r"nodes.*34", live)  # counts up, if it takes a while
    lines = [line.strip() for line in closing.splitlines() if line.strip()]
    assert lines[1].startswith("console  http://127.0.0.1:")
    assert f"export KUBECONFIG={data / 'kubeconfig'}" in lines
    assert "kilonova top" in lines


def test_ctrl_c_during_start_restores_the_terminal(kilonova: Kilonova, tmp_path: Path):
    process, person = start_on_terminal(
        kilonova, "up", "--no-demo", "--port", "0", "--data", tmp_path / "data"
    )
    read_until(person, b"API")
    os.write(person, b"\x03")
    rest = b""
    with contextlib.suppress(OSError):  # the terminal is closed
        while read := os.read(person, 4096):
            rest += read
    assert process.wait(30) in (0, 130)
    os.close(person)
    assert b"Traceback" not in rest
    assert rest.rfind(b"\x1b[?25h") > rest.rfind(b"\x1b[?25l")  # the cursor is back


def test_rejection_is_the_last_line(kilonova: Kilonova, tmp_path: Path):
    process, person = start_on_terminal(
        kilonova, "up", "--nodes", "smal", "--data", tmp_path / "data"
    )
    output = read_until(person, b"path of a fleet file").decode()
    assert process.wait(30) == 1
    os.close(person)
    assert "smal cannot be read" in output


def start_on_terminal(
    kilonova: Kilonova, *words: str | Path
) -> tuple[subprocess.Popen[bytes], int]:
    """A process, and the user's end of its pseudo-terminal."""
    person, terminal = pty.openpty()
    process = subprocess.Popen(
        kilonova.command(*words),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=kilonova.environment() | {"COLUMNS": "120"},
        cwd=kilonova.home,
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(terminal), os.O_RDWR)),
    )
    os.close(terminal)
    return process, person
