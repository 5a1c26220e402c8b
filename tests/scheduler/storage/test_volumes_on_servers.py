"""Volumes on both API servers, each with its own volume controller."""

from collections.abc import Iterator

import pytest

from tests.harness.access import ServerAccess
from tests.local.embedded_cluster import NODES, PODS, wait_for_condition
from tests.scheduler.binding.test_claim_allocations_on_servers import stage
from tests.scheduler.harness.embedded_scheduler import are_all_placed, nodes_by_pod, pod
from tests.scheduler.harness.servers import server_with
from tests.scheduler.harness.storage_objects import (
    CLAIMS,
    HOST,
    NS,
    SELECTED_NODE,
    VOLUMES,
    create_gang_with_claims,
    create_storage_class,
    create_volume,
    create_volume_claim,
    pod_volumes,
    volume_of,
)


@pytest.fixture(scope="module", params=["embedded", "kubernetes"])
def access(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerAccess]:
    """A server that binds claims to volumes."""
    folder = tmp_path_factory.mktemp(request.param)
    with server_with("persistentvolume-binder-controller", request.param, folder) as found:
        yield found


async def test_gang_binds_free_volumes_on_its_nodes(access: ServerAccess) -> None:
    async with stage(access, "a0", "a1", "a2") as client:
        for node in ("a0", "a1", "a2"):
            await client.patch(NODES, node, {"metadata": {"labels": {HOST: node}}})
        await create_storage_class(
            client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"
        )
        await create_volume(client, "v1", "a1")
        await create_volume(client, "v2", "a2")
        for each in ("x", "y"):
            await create_volume_claim(client, each, storage_class="static")
        names = await create_gang_with_claims(client, "g", ["x", "y"])
        await wait_for_condition(are_all_placed(client, names))
        nodes = await nodes_by_pod(client)
        volumes = {nodes[f"g-{each}"]: await volume_of(client, each) for each in ("x", "y")}
        assert volumes == {"a1": "v1", "a2": "v2"}
        for each in names:
            await client.delete(PODS, each, NS, grace_period_seconds=0)


async def test_selected_node_is_written_to_a_dynamically_provisioned_claim(
    access: ServerAccess,
) -> None:
    async with stage(access, "b0") as client:
        await client.patch(NODES, "b0", {"metadata": {"labels": {HOST: "b0"}}})
        await create_storage_class(client, "made", "disk.example.com", "WaitForFirstConsumer")
        await create_volume_claim(client, "data", storage_class="made")
        await client.create(PODS, pod("p", 0, **pod_volumes("data")), NS)

        async def is_selected() -> bool:
            claim = await client.get(CLAIMS, "data", NS)
            return claim["metadata"].get("annotations", {}).get(SELECTED_NODE) == "b0"

        await wait_for_condition(is_selected)
        claim = await client.get(CLAIMS, "data", NS)
        known = claim["metadata"]
        await create_volume(client, "provisioned", "b0", storage_class="made")
        reference = {"kind": CLAIMS.kind, "namespace": NS, "name": "data", "uid": known["uid"]}
        await client.patch(VOLUMES, "provisioned", {"spec": {"claimRef": reference}})
        await wait_for_condition(are_all_placed(client, ["p"]))
        assert await volume_of(client, "data") == "provisioned"
        await client.delete(PODS, "p", NS, grace_period_seconds=0)
