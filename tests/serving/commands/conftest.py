"""The command, on a cluster that knows InferenceServices and runs no controller."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.command import Kilonova
from tests.cli.forked import CompletedCommand
from tests.conftest import Api, create_namespace
from tests.harness.embedded_server import EmbeddedServer

Run = Callable[..., CompletedCommand]


@pytest.fixture
def kilonova(tmp_path: Path) -> Iterator[Kilonova]:
    """The command, with a home directory of its own."""
    command = Kilonova(tmp_path)
    yield command
    command.stop_all()


@pytest.fixture
def cluster(embedded_server: EmbeddedServer, kilonova: Kilonova) -> Api:
    """A namespace for this test."""
    access = embedded_server.access
    done = kilonova("install", "--components", "serving", "--kubeconfig", access.kubeconfig)
    assert done.code == 0, done.err
    return create_namespace("embedded", access)


@pytest.fixture
def serve(kilonova: Kilonova, cluster: Api) -> Run:
    """Runs `kilonova serve …` in the namespace of this test."""

    def run(*words: str | Path, **variables: str) -> CompletedCommand:
        flags = ("--kubeconfig", cluster.access.kubeconfig, "-n", cluster.namespace)
        return kilonova("serve", *words, *flags, variables=variables)

    return run
