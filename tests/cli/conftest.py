"""The command line, and a cluster that it started."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Kilonova


@pytest.fixture
def kilonova(tmp_path: Path) -> Iterator[Kilonova]:
    """The command, with a home of its own."""
    command = Kilonova(tmp_path)
    yield command
    command.end()


@pytest.fixture(scope="module")
def cluster_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kilonova]:
    """The command that `cluster` was started with."""
    command = Kilonova(tmp_path_factory.mktemp("home"))
    yield command
    command.end()


@pytest.fixture(scope="module")
def cluster(cluster_command: Kilonova) -> Path:
    """The data folder of a cluster with the usual fleet and no demo, in the background."""
    data = cluster_command.home / "cluster"
    done = cluster_command.detach(data, "--no-demo", "--nodes", "small")
    assert done.code == 0, done.err
    return data
