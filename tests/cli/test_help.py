"""Help, version and completion: complete, and fast."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from kilonova.cli.commands.app import app
from tests.cli.command import Kilonova


def test_help_lists_commands_and_exit_codes(kilonova: Kilonova):
    done = kilonova("--help")
    assert done.code == 0
    for command in ("up", "down", "status", "install", "run", "version", "--install-completion"):
        assert f"  {command} " in done.out
    assert "Exit codes:" in done.out


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_root_help_is_what_typer_prints(kilonova: Kilonova, flag: str):
    assert kilonova(flag).out == CliRunner().invoke(app, ["--help"], prog_name="kilonova").output


def test_root_help_is_wrapped_for_a_narrow_terminal(kilonova: Kilonova):
    done = subprocess.run(
        kilonova.command("--help"),
        env=kilonova.environment() | {"COLUMNS": "60"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"^  nodes +List nodes and how many of their GPUs\.\.\.$", done.stdout, re.M)


def _paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command, groups included."""
    if path:
        yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from _paths(each, (*path, name))


@pytest.mark.parametrize("path", list(_paths(get_command(app))), ids=" ".join)
def test_every_command_shows_examples(path: tuple[str, ...]):
    output = CliRunner().invoke(app, [*path, "--help"]).output
    assert f"    kilonova {' '.join(path)}" in output


@pytest.mark.parametrize("words", [["--help"], ["nodes", "--help"]], ids=" ".join)
def test_help_imports_nothing_that_only_a_cluster_needs(kilonova: Kilonova, words: list[str]):
    """Keeps the start of commands fast; asserted without a clock."""
    loaded = _imported_modules(kilonova, *words)
    heavy = ("kilonova.local", "kilonova.kube", "aiohttp", "msgspec", "rich", "yaml", "asyncio")
    assert "kilonova.cli" in loaded
    assert not loaded & set(heavy)


def test_command_line_loads_only_its_command(kilonova: Kilonova):
    assert "typer" not in _imported_modules(kilonova, "--help")
    loaded = _imported_modules(kilonova, "nodes", "--help")
    assert {"typer", "kilonova.cli.commands.lists.nodes"} <= loaded
    assert not {"kilonova.cli.commands.plan", "kilonova.cli.commands.run.app"} & loaded


def _imported_modules(kilonova: Kilonova, *words: str) -> set[str]:
    program = (
        "import sys; from kilonova.cli import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *words],
        env=kilonova.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def test_version_is_that_of_the_package(kilonova: Kilonova):
    from kilonova import __version__

    assert kilonova("version").out == f"kilonova {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_offers_the_commands(kilonova: Kilonova, shell: str):
    request = {
        "_KILONOVA_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "kilonova d",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": "kilonova d",
        "COMP_CWORD": "1",
    }
    assert "down" in kilonova(variables=request).out


def test_status_without_a_cluster_has_all_keys(kilonova: Kilonova, tmp_path: Path):
    done = kilonova("status", "-o", "json", "--data", tmp_path / "data")
    assert done.code == 3
    status = kilonova.status(tmp_path / "data")
    assert status["running"] is False
    keys = (
        "running stopped pid url kubeconfig started console components problems version nodes pods "
        "containers data resourceVersion"
    )
    assert set(status) == set(keys.split())
    assert not (tmp_path / "data").exists()


def test_default_data_directory_is_in_the_home_of_the_user(kilonova: Kilonova, tmp_path: Path):
    status = kilonova("status")
    assert str(tmp_path / ".local/share/kilonova/default") in status.out
