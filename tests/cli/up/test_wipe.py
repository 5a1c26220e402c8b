"""`down --wipe`: what it removes and keeps, and when it is rejected."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import Kilonova
from tests.cli.up.test_cluster_lifecycle import is_alive, read_until


def start_cluster(kilonova: Kilonova, data: Path) -> int:
    done = kilonova.detach(data, "--no-demo", "--console")
    assert done.code == 0, done.err
    return kilonova.status(data)["pid"]


def test_wipe_stops_the_cluster_and_removes_everything(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    pid = start_cluster(kilonova, data)
    done = kilonova("down", "--wipe", "--yes", "--data", data)
    assert done.code == 0, done.err
    assert f"Removed {data}." in done.out
    assert not is_alive(pid)
    assert not data.exists()


def test_wipe_works_on_a_stopped_cluster_and_again(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    start_cluster(kilonova, data)
    kilonova("down", "--data", data)
    assert kilonova("down", "--wipe", "--yes", "--data", data).code == 0
    again = kilonova("down", "--wipe", "--yes", "--data", data)
    assert (again.code, again.out) == (
        0,
        f"There is nothing to remove: {data} does not exist.\n",
    )


def test_dry_run_lists_what_would_be_removed(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    pid = start_cluster(kilonova, data)
    before = sorted(each.name for each in data.iterdir())
    done = kilonova("down", "--wipe", "--dry-run", "--data", data)
    assert done.code == 0
    assert f"To be removed from {data}: console-token, kubeconfig" in done.out
    assert is_alive(pid)
    assert sorted(each.name for each in data.iterdir()) == before


def test_foreign_files_are_not_removed(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    start_cluster(kilonova, data)
    (data / "notes.txt").write_text("mine")
    done = kilonova("down", "--wipe", "--yes", "--data", data)
    assert "Not removed, since not Kilonova's: notes.txt." in done.out
    assert [each.name for each in data.iterdir()] == ["notes.txt"]


def test_without_a_terminal_yes_is_required(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    pid = start_cluster(kilonova, data)
    done = kilonova("down", "--wipe", "--data", data)
    assert done.code == 1
    assert done.err == "kilonova: standard input is not a terminal: confirm --wipe with --yes\n"
    assert is_alive(pid)


@pytest.mark.parametrize(("answer", "kept"), [(b"n\n", True), (b"y\n", False)])
def test_at_a_terminal_confirmation_is_requested(
    kilonova: Kilonova, tmp_path: Path, answer: bytes, kept: bool
):
    data = tmp_path / "data"
    start_cluster(kilonova, data)
    person, terminal = pty.openpty()
    process = subprocess.Popen(
        kilonova.command("down", "--wipe", "--data", data),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=kilonova.environment(),
    )
    os.close(terminal)
    read_until(person, b"Remove it all? [y/N]")
    os.write(person, answer)
    read_until(person, b"Aborted" if kept else b"Removed")
    assert process.wait(30) == (1 if kept else 0)
    os.close(person)
    assert data.exists() is kept


def test_directory_of_no_cluster_is_rejected(kilonova: Kilonova, tmp_path: Path):
    (tmp_path / "log").write_text("mine")
    done = kilonova("down", "--wipe", "--yes", "--data", tmp_path)
    assert done.code == 1
    assert f"{tmp_path} is not a data directory of Kilonova" in done.err
    assert "--data DIR" in done.err
    assert (tmp_path / "log").read_text() == "mine"


INCOMPATIBLE = [
    (("--wipe", "--keep-pods"), "--keep-pods"),
    (("--wipe", "--no-wait"), "--no-wait"),
    (("--yes",), "--yes requires --wipe"),
    (("--dry-run",), "--dry-run requires --wipe"),
]


@pytest.mark.parametrize(("options", "named"), INCOMPATIBLE)
def test_incompatible_options_are_rejected(
    kilonova: Kilonova, tmp_path: Path, options: tuple[str, ...], named: str
):
    done = kilonova("down", *options, "--data", tmp_path)
    assert done.code == 2
    assert named in done.err
