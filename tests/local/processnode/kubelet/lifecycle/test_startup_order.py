"""The startup container of a clique's pods on the process node, which executes it."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from kilonova.api.grove import names
from tests.local.embedded_cluster import PODS
from tests.local.processnode.kubelet.process_cluster import (
    ProcessCluster,
    is_ready,
    process_cluster,
    state_of,
)

FILE = f"{names.POD_INFO_PATH}/{names.RELEASED_FILE}"
WAIT = f"until [ -s {FILE} ]; do sleep 0.02; done"
RELEASE = {"metadata": {"annotations": {names.STARTUP_RELEASED: "true"}}}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[ProcessCluster]:
    async with process_cluster(tmp_path / "data") as running:
        yield running


async def create_waiting(cluster: ProcessCluster, name: str, **more: Any) -> None:
    """A pod that waits to be released, as the operator creates it."""
    path = f"metadata.annotations['{names.STARTUP_RELEASED}']"
    item = {"path": names.RELEASED_FILE, "fieldRef": {"fieldPath": path}}
    startup = {
        "name": names.STARTUP_CONTAINER,
        "image": "none",
        "command": ["sh", "-c", WAIT],
        "volumeMounts": [{"name": names.POD_INFO_VOLUME, "mountPath": names.POD_INFO_PATH}],
    }
    await cluster.create(
        name,
        {"name": "main", "command": ["sleep", "1000"]},
        initContainers=[startup],
        volumes=[{"name": names.POD_INFO_VOLUME, "downwardAPI": {"items": [item]}}],
        **more,
    )


async def test_a_pod_waits_until_it_is_released(cluster: ProcessCluster) -> None:
    await create_waiting(cluster, "p")
    held = await cluster.wait_until(
        "p", lambda p: state_of(p, names.STARTUP_CONTAINER)[0] == "running"
    )
    assert held["status"]["phase"] == "Pending"
    assert state_of(held) == ("waiting", {"reason": "PodInitializing"})
    await cluster.client.patch(PODS, "p", RELEASE, "default")
    await cluster.wait_until("p", is_ready, within=5)


async def test_pod_created_as_released_does_not_wait(cluster: ProcessCluster) -> None:
    await create_waiting(cluster, "p", metadata=RELEASE["metadata"])
    await cluster.wait_until("p", is_ready, within=5)


async def test_no_release_is_missed_whenever_it_comes(cluster: ProcessCluster) -> None:
    """Also if it comes while the kubelet writes a status, whose response shows it first."""

    async def live(number: int) -> None:
        name = f"p-{number}"
        await create_waiting(cluster, name)
        await asyncio.sleep(number * 0.01)
        await cluster.client.patch(PODS, name, RELEASE, "default")
        await cluster.wait_until(name, is_ready)

    await asyncio.gather(*map(live, range(16)))


async def test_labels_of_a_running_pod_are_shown_as_they_change(cluster: ProcessCluster) -> None:
    ref = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    await cluster.run(
        "p",
        "sh",
        "-c",
        "until grep -q two /info/labels; do sleep 0.02; done; echo came",
        container={"volumeMounts": [{"name": "v", "mountPath": "/info"}]},
        volumes=[{"name": "v", "downwardAPI": {"items": [ref]}}],
        metadata={"labels": {"a": "one"}},
        restartPolicy="Never",
    )
    await cluster.wait_until("p", is_ready)
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"a": "two"}}}, "default")
    await cluster.wait_for_phase("p", "Succeeded")
    assert await cluster.logs("p") == "came\n"
