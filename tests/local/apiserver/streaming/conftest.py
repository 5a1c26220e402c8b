"""A listening cluster with one node that runs real processes, and kubectl."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from tests.local.apiserver.streaming.streaming_cluster import StreamingCluster
from tests.local.embedded_cluster import ACCOUNTS


@pytest.fixture
async def streaming_cluster(tmp_path: Path) -> AsyncIterator[StreamingCluster]:
    cluster = EmbeddedCluster(ClusterSettings(data=tmp_path / "data", port=0, controllers=""))
    await cluster.start()
    made = StreamingCluster(cluster, tmp_path)
    await made.client.create(ACCOUNTS, {"metadata": {"name": "default"}}, "default")
    try:
        yield made
    finally:
        await cluster.stop()
        await made.stop()
