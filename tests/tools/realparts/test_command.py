"""`make real-parts`: which parts there are, and what it says about those that it cannot get."""

import subprocess
import sys
from pathlib import Path

from tools.realparts.parts import ON_DEMAND, PARTS

_ROOT = Path(__file__).parents[3]


def test_each_part_has_a_name_of_its_own() -> None:
    names = [part.name for part in (*PARTS, *ON_DEMAND)]
    assert len(set(names)) == len(names)


def test_unknown_part_is_rejected_with_the_names_of_all(tmp_path: Path) -> None:
    done = run_command(tmp_path, "redis")
    assert done.returncode == 2
    assert "no part is named redis; there are chromium, prometheus" in done.stderr


def test_every_part_that_cannot_be_had_is_named_with_its_reason(tmp_path: Path) -> None:
    done = run_command(tmp_path, "runc", "cni-plugins")
    assert (done.returncode, done.stdout) == (1, "")
    assert "make real-parts: runc: a C compiler is needed" in done.stderr
    assert "make real-parts: cni-plugins: it comes from Debian's packages" in done.stderr


def test_list_of_an_empty_cache_has_every_part_as_missing(tmp_path: Path) -> None:
    done = run_command(tmp_path, "--list")
    assert done.returncode == 0
    states = {line.split()[0]: "missing" in line for line in done.stdout.splitlines()[1:]}
    assert states == {part.name: True for part in (*PARTS, *ON_DEMAND)}


def run_command(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command with an empty cache, on a machine without tools."""
    return subprocess.run(
        [sys.executable, "-m", "tools.realparts", *words],
        cwd=_ROOT,
        env={"PATH": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
