"""A listening cluster with one node that runs things for real, and kubectl on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kilonova.local.cluster import Cluster, Settings
from tests.local.embedded_cluster import ACCOUNTS
from tests.local.streaming.scene import Scene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    cluster = Cluster(Settings(data=tmp_path / "data", port=0, controllers=""))
    await cluster.start()
    made = Scene(cluster, tmp_path)
    await made.client.create(ACCOUNTS, {"metadata": {"name": "default"}}, "default")
    try:
        yield made
    finally:
        await cluster.stop()
        await made.stop()
