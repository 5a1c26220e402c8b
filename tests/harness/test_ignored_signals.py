"""Tests that are started with signals ignored, as `nohup` and background jobs of scripts are."""

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STARTED_BY_A_TEST = """
import signal, subprocess, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
import tests.conftest
signal.raise_signal(signal.SIGINT)
print("goes on", flush=True)
child = [sys.executable, "-c", "import signal, os; os.kill(os.getpid(), signal.SIGINT); print(1)"]
print(subprocess.run(child, stderr=subprocess.DEVNULL).returncode)
"""


def test_processes_that_tests_start_do_not_ignore_what_the_tests_do() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED_BY_A_TEST],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["goes on", str(-signal.SIGINT)], done.stderr
