"""Fixtures: the command with the toy component registered."""

from collections.abc import Iterator

import pytest

from kilonova.component.registry import MODULES_VARIABLE
from tests.component.toy_command import TOY_MODULE, ToyKilonova


@pytest.fixture(scope="module")
def toy_kilonova(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyKilonova]:
    """The command, with the toy component and a home directory of its own."""
    command = ToyKilonova(tmp_path_factory.mktemp("home"))
    yield command
    command.stop_all()


@pytest.fixture
def toy_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy component is registered in this process."""
    monkeypatch.setenv(MODULES_VARIABLE, TOY_MODULE)
