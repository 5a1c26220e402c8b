"""Fixtures: the command, and a cluster that it started."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Kilonova


@pytest.fixture
def kilonova(tmp_path: Path) -> Iterator[Kilonova]:
    """The command, with a home directory of its own."""
    command = Kilonova(tmp_path)
    yield command
    command.stop_all()


@pytest.fixture(scope="module")
def cluster_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kilonova]:
    """The command that started `cluster`."""
    command = Kilonova(tmp_path_factory.mktemp("home"))
    yield command
    command.stop_all()


@pytest.fixture(scope="module")
def cluster(cluster_command: Kilonova) -> Path:
    """The data directory of a background cluster with the default fleet and no demo."""
    data = cluster_command.home / "cluster"
    done = cluster_command.detach(data, "--no-demo", "--nodes", "small")
    assert done.code == 0, done.err
    return data
