"""Runs scripts with Triton's own client for Python, and perf_analyzer."""

import os
import subprocess
import sys
from pathlib import Path

from tools.realparts.parts.tritonclient import PERF_ANALYZER

_PYTHON = getattr(sys, "_base_executable", sys.executable)
"""The interpreter without our own environment: the client wants other versions."""


def run_client(part: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script that imports `tritonclient`; `part` is the fixture `tritonclient_part`."""
    return _run([_PYTHON, "-s", "-c", script, *arguments], PYTHONPATH=str(part))


def run_perf_analyzer(part: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run perf_analyzer; `part` is the fixture `tritonclient_part`."""
    return _run([str(part / PERF_ANALYZER), *arguments])


def _run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
