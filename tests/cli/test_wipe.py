"""`down --wipe`: what it removes, what it leaves, and when it refuses."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import Kilonova
from tests.cli.test_life_of_a_cluster import is_alive, read_until


def started(kilonova: Kilonova, data: Path) -> int:
    done = kilonova.detach(data, "--no-demo", "--console")
    assert done.code == 0, done.err
    return kilonova.status(data)["pid"]


def test_a_wipe_stops_the_cluster_and_leaves_nothing(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    pid = started(kilonova, data)
    done = kilonova("down", "--wipe", "--yes", "--data", data)
    assert done.code == 0, done.err
    assert f"Forgotten: {data} is gone." in done.out
    assert not is_alive(pid)
    assert not data.exists()


def test_a_wipe_works_when_nothing_runs_and_once_more(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    started(kilonova, data)
    kilonova("down", "--data", data)
    assert kilonova("down", "--wipe", "--yes", "--data", data).code == 0
    again = kilonova("down", "--wipe", "--yes", "--data", data)
    assert (again.code, again.out) == (
        0,
        f"There is nothing to forget: {data} does not exist.\n",
    )


def test_a_dry_run_says_what_would_go_and_stops_nothing(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    pid = started(kilonova, data)
    before = sorted(each.name for each in data.iterdir())
    done = kilonova("down", "--wipe", "--dry-run", "--data", data)
    assert done.code == 0
    assert f"To be removed from {data}: console-token, kubeconfig" in done.out
    assert is_alive(pid)
    assert sorted(each.name for each in data.iterdir()) == before


def test_what_is_not_kilonovas_is_left_alone(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    started(kilonova, data)
    (data / "notes.txt").write_text("mine")
    done = kilonova("down", "--wipe", "--yes", "--data", data)
    assert "Left alone, since it is not Kilonova's: notes.txt." in done.out
    assert [each.name for each in data.iterdir()] == ["notes.txt"]


def test_without_a_terminal_somebody_must_have_said_yes(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    pid = started(kilonova, data)
    done = kilonova("down", "--wipe", "--data", data)
    assert done.code == 1
    assert done.err == "kilonova: nobody is there to be asked whether to remove it: say --yes\n"
    assert is_alive(pid)


@pytest.mark.parametrize(("answer", "kept"), [(b"n\n", True), (b"y\n", False)])
def test_at_a_terminal_one_is_asked(kilonova: Kilonova, tmp_path: Path, answer: bytes, kept: bool):
    data = tmp_path / "data"
    started(kilonova, data)
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
    read_until(person, b"Aborted" if kept else b"Forgotten")
    assert process.wait(30) == (1 if kept else 0)
    os.close(person)
    assert data.exists() is kept


def test_a_folder_that_is_not_a_clusters_is_refused(kilonova: Kilonova, tmp_path: Path):
    (tmp_path / "log").write_text("mine")
    done = kilonova("down", "--wipe", "--yes", "--data", tmp_path)
    assert done.code == 1
    assert f"{tmp_path} is no data folder of Kilonova" in done.err
    assert "--data DIR" in done.err
    assert (tmp_path / "log").read_text() == "mine"


UNFIT = [
    (("--wipe", "--keep-pods"), "--keep-pods"),
    (("--wipe", "--no-wait"), "--no-wait"),
    (("--yes",), "--yes belongs to --wipe"),
    (("--dry-run",), "--dry-run belongs to --wipe"),
]


@pytest.mark.parametrize(("options", "named"), UNFIT)
def test_options_that_do_not_fit_are_refused(
    kilonova: Kilonova, tmp_path: Path, options: tuple[str, ...], named: str
):
    done = kilonova("down", *options, "--data", tmp_path)
    assert done.code == 2
    assert named in done.err
