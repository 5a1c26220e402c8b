"""An embedded cluster with all components, for existing Kubernetes clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.client_cluster import ClientCluster
from tests.harness.embedded_server import EmbeddedServer

_FLEET = """
nodes:
  - {name: n, count: 3, start: 20ms, stop: 20ms}
"""


@pytest.fixture(scope="session")
def client_cluster(
    tmp_path_factory: pytest.TempPathFactory, kubectl_path: Path
) -> Iterator[ClientCluster]:
    """All built-in controllers, and three simulated nodes."""
    folder = tmp_path_factory.mktemp("client_cluster")
    fleet = folder / "fleet.yaml"
    fleet.write_text(_FLEET)
    with EmbeddedServer.start(
        folder / "data", "--port", "0", "--scheduler", "--nodes", str(fleet)
    ) as server:
        yield ClientCluster.from_server(server, folder)
