"""A cluster whose API server calls review handlers of the test."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kilonova.kube.admission.in_process import InProcessWebhook
from kilonova.local.apiserver.auth import User
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from tests.local.embedded_cluster import LoopClock

EVE = User("eve", groups=("system:masters",))


@asynccontextmanager
async def cluster_with_webhooks(*webhooks: InProcessWebhook) -> AsyncGenerator[EmbeddedCluster]:
    """A cluster with these webhooks."""
    cluster = EmbeddedCluster(
        ClusterSettings(port=None, controllers=""), clock=LoopClock(), webhooks=lambda _: webhooks
    )
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()
