"""`make chromium` uses an installed browser, installs a missing one, or explains how to get one."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """The only directory of the PATH."""
    folder = tmp_path / "commands"
    folder.mkdir()
    return folder


def test_installed_browser_is_used(commands: Path) -> None:
    browser = write_script(commands / "chromium-browser", "exit 0")
    done = run_get(commands)
    assert (done.returncode, done.stdout) == (0, f"{browser}\n")


def test_browser_of_the_variable_takes_precedence(commands: Path, tmp_path: Path) -> None:
    write_script(commands / "chromium", "exit 0")
    mine = write_script(tmp_path / "mine", "exit 0")
    assert run_get(commands, KILONOVA_CHROMIUM=str(mine)).stdout == f"{mine}\n"


def test_unusable_browser_of_the_variable_is_an_error(commands: Path) -> None:
    write_script(commands / "chromium", "exit 0")
    done = run_get(commands, KILONOVA_CHROMIUM="/no/such/browser")
    assert done.returncode == 1
    assert "KILONOVA_CHROMIUM=/no/such/browser does not run" in done.stderr


def test_missing_browser_without_apt_is_explained(commands: Path) -> None:
    write_script(commands / "chromium", "exit 1")  # a script that only refers to another package
    done = run_get(commands)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("make real-parts: chromium: no Chromium on this machine")
    assert len(done.stderr.splitlines()) == 1


def test_missing_browser_is_installed(commands: Path) -> None:
    install_fake_apt(
        commands, f"printf '#!/bin/sh\\n' >{commands}/chromium; /bin/chmod +x {commands}/*"
    )
    done = run_get(commands)
    assert (done.returncode, done.stdout) == (0, f"{commands / 'chromium'}\n")
    assert "apt-get update" in done.stderr
    assert "apt-get install -y --no-install-recommends chromium" in done.stderr


def test_failed_installation_is_reported(commands: Path) -> None:
    install_fake_apt(commands, "exit 100")
    done = run_get(commands)
    assert done.returncode == 1
    assert "fonts-noto-core` failed; no Chromium on this machine" in done.stderr


def install_fake_apt(commands: Path, install: str) -> None:
    """A fake apt-get with this install command, and the commands that lead to it for non-root
    users.
    """
    write_script(commands / "apt-get", f'echo "apt-get $*"\n[ "$1" = update ] || {{ {install}; }}')
    write_script(commands / "env", 'shift\nexec "$@"')
    write_script(commands / "sudo", 'shift\n[ "$1" = true ] || exec "$@"')


def write_script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def run_get(commands: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.realparts", "chromium"],
        cwd=_ROOT,
        env={"PATH": str(commands), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
