"""The server of a scenario: kube-apiserver, or the embedded API in the process of the test.

That the embedded API answers on its socket as in process is tested elsewhere (`tests/differential`,
`tests/e2e`); a scenario without sockets and a second process costs half as much.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from kilonova.api.crds import load_definitions
from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.kube import Client
from kilonova.local.apiserver.bootstrap import install_crds
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from tests.local.embedded_cluster import NAMESPACES

_NAMESPACE = "scenario"


class ScenarioApi(Protocol):
    """A server under test, and a namespace that this test has for itself."""

    @property
    def namespace(self) -> str: ...

    def client(self) -> Client:
        """A client, as the administrator; the caller closes it."""
        ...


@dataclass(frozen=True)
class InProcessApi:
    """An embedded cluster in this process."""

    cluster: EmbeddedCluster
    namespace: str = _NAMESPACE

    def client(self) -> Client:
        return self.cluster.client("kubernetes-admin")


@asynccontextmanager
async def in_process_api(controllers: str) -> AsyncGenerator[InProcessApi]:
    """An embedded cluster with our kinds, in real time and without nodes."""
    settings = ClusterSettings(port=None, controllers=controllers)
    cluster = assemble_cluster((), settings).cluster
    await cluster.start()
    try:
        client = cluster.client("kilonova")
        await install_crds(client, load_definitions())
        await client.create(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
        yield InProcessApi(cluster)
    finally:
        await cluster.stop()
