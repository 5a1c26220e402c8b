"""Pods get the zone and region labels of the node that they are bound to."""

import pytest

from kilonova.kube import Client
from tests.local.embedded_cluster import NODES, PODS, pod, run_cluster

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"

pytestmark = pytest.mark.looptime


async def labels(client: Client, name: str) -> dict[str, str]:
    return (await client.get(PODS, name, "default"))["metadata"].get("labels", {})


async def test_bound_pod_gets_zone_and_region_labels() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        position = {ZONE: "a", REGION: "north", "rack": "7"}
        await client.create(NODES, {"metadata": {"name": "n", "labels": position}})
        unplaced = pod("bound", schedulerName="none", metadata={"labels": {"app": "x"}})
        await client.create(PODS, unplaced, "default")
        assert await labels(client, "bound") == {"app": "x"}
        await client.bind("bound", "default", "n")
        assert await labels(client, "bound") == {"app": "x", ZONE: "a", REGION: "north"}


async def test_pod_created_with_node_name_gets_topology_labels() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        await client.create(NODES, {"metadata": {"name": "n", "labels": {ZONE: "a"}}})
        mistaken = pod("made", nodeName="n", metadata={"labels": {ZONE: "b"}})
        await client.create(PODS, mistaken, "default")
        assert await labels(client, "made") == {ZONE: "a"}


async def test_missing_node_adds_no_labels() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        await client.create(PODS, pod("lost", nodeName="nowhere"), "default")
        assert ZONE not in await labels(client, "lost")
