"""`make chromium`: what is there is used, what is missing is installed, and else it says how."""

import subprocess
import sys
from pathlib import Path

import pytest

_GET = Path(__file__).parents[2] / "tools" / "chromium" / "get.py"


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """The only folder of the PATH."""
    folder = tmp_path / "commands"
    folder.mkdir()
    return folder


def test_one_that_is_there_is_used(commands: Path) -> None:
    browser = script(commands / "chromium-browser", "exit 0")
    done = get(commands)
    assert (done.returncode, done.stdout) == (0, f"{browser}\n")


def test_the_one_that_is_asked_for_comes_first(commands: Path, tmp_path: Path) -> None:
    script(commands / "chromium", "exit 0")
    mine = script(tmp_path / "mine", "exit 0")
    assert get(commands, KILONOVA_CHROMIUM=str(mine)).stdout == f"{mine}\n"


def test_one_that_is_asked_for_and_does_not_run_is_an_error(commands: Path) -> None:
    script(commands / "chromium", "exit 0")
    done = get(commands, KILONOVA_CHROMIUM="/no/such/browser")
    assert done.returncode == 1
    assert "KILONOVA_CHROMIUM=/no/such/browser does not run" in done.stderr


def test_without_any_it_says_how_to_get_one(commands: Path) -> None:
    script(commands / "chromium", "exit 1")  # a script that only leads elsewhere
    done = get(commands)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("make chromium: no Chromium on this machine")
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_one_is_installed(commands: Path) -> None:
    with_apt(commands, f"printf '#!/bin/sh\\n' >{commands}/chromium; /bin/chmod +x {commands}/*")
    done = get(commands)
    assert (done.returncode, done.stdout) == (0, f"{commands / 'chromium'}\n")
    assert "apt-get update" in done.stderr
    assert "apt-get install -y --no-install-recommends chromium" in done.stderr


def test_an_install_that_fails_is_told(commands: Path) -> None:
    with_apt(commands, "exit 100")
    done = get(commands)
    assert done.returncode == 1
    assert "fonts-noto-core` failed; no Chromium on this machine" in done.stderr


def with_apt(commands: Path, install: str) -> None:
    """An apt-get that does this to install, and what leads to it for those who are not root."""
    script(commands / "apt-get", f'echo "apt-get $*"\n[ "$1" = update ] || {{ {install}; }}')
    script(commands / "env", 'shift\nexec "$@"')
    script(commands / "sudo", 'shift\n[ "$1" = true ] || exec "$@"')


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def get(commands: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(_GET)],
        env={"PATH": str(commands), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
