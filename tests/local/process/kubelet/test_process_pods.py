"""Pods through the API, run as processes: their lives, good and bad."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.local.process.kubelet.process_cluster import (
    ProcessCluster,
    container_of,
    is_ready,
    process_cluster,
    state_of,
)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[ProcessCluster]:
    async with process_cluster(tmp_path / "data") as running:
        yield running


async def test_a_pod_runs_to_its_end(cluster: ProcessCluster) -> None:
    await cluster.run(
        "p", "sh", "-c", "echo hello; echo bye > /dev/termination-log", restartPolicy="Never"
    )
    pod = await cluster.until_phase("p", "Succeeded")
    kind, said = state_of(pod)
    assert (kind, said["exitCode"], said["reason"], said["message"]) == (
        "terminated",
        0,
        "Completed",
        "bye\n",
    )
    assert await cluster.logs("p") == "hello\n"
    assert {("Created", "Container created"), ("Started", "Container started")} <= set(
        await cluster.events("p")
    )
    assert pod["status"]["podIP"].startswith("127.")
