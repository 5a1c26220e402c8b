"""Help, version and completion: always there, and quickly."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from kilonova.cli.commands import app
from tests.cli.command import Kilonova


def test_help_lists_commands_and_exit_codes(kilonova: Kilonova):
    done = kilonova("--help")
    assert done.code == 0
    for command in ("up", "down", "status", "install", "run", "version", "--install-completion"):
        assert f"  {command} " in done.out
    assert "Exit codes:" in done.out


def _paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that can be typed, groups included."""
    if path:
        yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from _paths(each, (*path, name))


@pytest.mark.parametrize("path", list(_paths(get_command(app))), ids=" ".join)
def test_every_command_shows_examples(path: tuple[str, ...]):
    shown = CliRunner().invoke(app, [*path, "--help"]).output
    assert f"    kilonova {' '.join(path)}" in shown


def test_help_loads_nothing_that_only_a_cluster_needs(kilonova: Kilonova):
    """What keeps `kilonova --help` within 150 ms, asserted without a clock."""
    done = subprocess.run(
        [kilonova.command()[0], "-X", "importtime", *kilonova.command()[1:], "--help"],
        env=kilonova.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    heavy = ("kilonova.local", "kilonova.kube", "aiohttp", "msgspec", "rich", "yaml", "asyncio")
    assert "typer" in loaded
    assert not loaded & set(heavy)


def test_version_is_that_of_the_package(kilonova: Kilonova):
    from kilonova import __version__

    assert kilonova("version").out == f"kilonova {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_offers_the_commands(kilonova: Kilonova, shell: str):
    environment = kilonova.environment() | {
        "_KILONOVA_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "kilonova d",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": "kilonova d",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        kilonova.command(), env=environment, capture_output=True, text=True, check=False
    )
    assert "down" in done.stdout


def test_status_of_nothing_has_all_its_keys(kilonova: Kilonova, tmp_path: Path):
    done = kilonova("status", "-o", "json", "--data", tmp_path / "data")
    assert done.code == 3
    status = kilonova.status(tmp_path / "data")
    assert status["running"] is False
    keys = (
        "running stopped pid url kubeconfig started console rooms problems version nodes pods "
        "containers data resourceVersion"
    )
    assert set(status) == set(keys.split())
    assert not (tmp_path / "data").exists()


def test_without_a_folder_the_users_data_folder_is_meant(kilonova: Kilonova, tmp_path: Path):
    status = kilonova("status")
    assert str(tmp_path / ".local/share/kilonova/default") in status.out
