"""Test runs that are started with signals ignored, as by `nohup` and background jobs."""

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHILD_PROGRAM = """
import signal, subprocess, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
import tests.conftest
signal.raise_signal(signal.SIGINT)
print("goes on", flush=True)
child = [sys.executable, "-c", "import signal, os; os.kill(os.getpid(), signal.SIGINT); print(1)"]
print(subprocess.run(child, stderr=subprocess.DEVNULL).returncode)
"""


def test_child_processes_do_not_inherit_ignored_signals() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD_PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["goes on", str(-signal.SIGINT)], done.stderr
