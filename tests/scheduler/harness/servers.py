"""Either API server, with additional controllers."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import CONTROLLERS
from tests.harness.access import ServerAccess
from tests.harness.control_plane import MISSING_BINARIES_MESSAGE, ControlPlane, find_binaries
from tests.harness.embedded_server import EmbeddedServer


@contextmanager
def server_with(controller: str, kind: str, folder: Path) -> Generator[ServerAccess]:
    """A dedicated server, `embedded` or `kubernetes`, with one more controller."""
    controllers = f"{CONTROLLERS},{controller}"
    if kind == "embedded":
        option = f"--controllers={controllers},definition-controller"
        with EmbeddedServer.start(folder / "data", "--port", "0", option) as server:
            yield server.access
    else:
        if find_binaries() is None:
            pytest.skip(MISSING_BINARIES_MESSAGE)
        with ControlPlane.start(folder, controllers=controllers) as plane:
            yield plane.access
