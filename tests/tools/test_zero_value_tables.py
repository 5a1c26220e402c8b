"""The tables of zero values and columns are up to date with the pinned modules."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("go_command")
@pytest.mark.parametrize("generator", ["zero_values", "columns"])
def test_table_is_up_to_date(generator: str) -> None:
    check = subprocess.run(
        [sys.executable, "-m", f"tools.schemas.{generator}", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stderr
