"""An embedded cluster with everything on, for the clients that people already have."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.ground import Ground
from tests.harness.embedded import EmbeddedServer

_FLEET = """
nodes:
  - {name: n, count: 3, start: 20ms, stop: 20ms}
"""


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory, kubectl_path: Path) -> Iterator[Ground]:
    """All built-in controllers, and three simulated nodes."""
    folder = tmp_path_factory.mktemp("ground")
    fleet = folder / "fleet.yaml"
    fleet.write_text(_FLEET)
    with EmbeddedServer.start(
        folder / "data", "--port", "0", "--scheduler", "--nodes", str(fleet)
    ) as server:
        yield Ground.on(server, folder)
