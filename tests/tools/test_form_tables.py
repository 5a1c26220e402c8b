"""The tables of forms and columns are what their generators make of the pinned modules."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go: `make control-plane` says how")
@pytest.mark.parametrize("generator", ["forms", "columns"])
def test_the_table_is_not_stale(generator: str) -> None:
    check = subprocess.run(
        [sys.executable, "-m", f"tools.schemas.{generator}", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stderr
