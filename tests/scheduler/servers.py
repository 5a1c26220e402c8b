"""Either server with controllers beyond those that all tests share."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import CONTROLLERS
from tests.harness.access import Access
from tests.harness.controlplane import HOW_TO_GET, ControlPlane, binaries
from tests.harness.embedded import EmbeddedServer


@contextmanager
def server_with(controller: str, kind: str, folder: Path) -> Generator[Access]:
    """A server of its own, `embedded` or `kubernetes`, that runs one more controller."""
    controllers = f"{CONTROLLERS},{controller}"
    if kind == "embedded":
        option = f"--controllers={controllers},definition-controller"
        with EmbeddedServer.start(folder / "data", "--port", "0", option) as server:
            yield server.access
    else:
        if binaries() is None:
            pytest.skip(HOW_TO_GET)
        with ControlPlane.start(folder, controllers=controllers) as plane:
            yield plane.access
