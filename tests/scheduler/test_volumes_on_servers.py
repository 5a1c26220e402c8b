"""Volumes on both servers, each with its own controller for them: what we write, they bind."""

from collections.abc import Iterator

import pytest

from tests.harness.access import Access
from tests.local.embedded_cluster import NODES, PODS, eventually
from tests.scheduler.scheduling import all_placed, nodes_of, pod
from tests.scheduler.servers import server_with
from tests.scheduler.storing import (
    CLAIMS,
    HOST,
    NS,
    SELECTED_NODE,
    VOLUMES,
    make_claim,
    make_class,
    make_gang,
    make_volume,
    using,
    volume_of,
)
from tests.scheduler.test_claims_on_servers import stage


@pytest.fixture(scope="module", params=["embedded", "kubernetes"])
def access(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Access]:
    """A server that binds claims to volumes."""
    folder = tmp_path_factory.mktemp(request.param)
    with server_with("persistentvolume-binder-controller", request.param, folder) as found:
        yield found


async def test_a_gang_gets_free_volumes_on_its_nodes(access: Access) -> None:
    async with stage(access, "a0", "a1", "a2") as client:
        for node in ("a0", "a1", "a2"):
            await client.patch(NODES, node, {"metadata": {"labels": {HOST: node}}})
        await make_class(client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        await make_volume(client, "v1", "a1")
        await make_volume(client, "v2", "a2")
        for each in ("x", "y"):
            await make_claim(client, each, of="static")
        names = await make_gang(client, "g", ["x", "y"])
        await eventually(all_placed(client, names))
        nodes = await nodes_of(client)
        volumes = {nodes[f"g-{each}"]: await volume_of(client, each) for each in ("x", "y")}
        assert volumes == {"a1": "v1", "a2": "v2"}
        for each in names:
            await client.delete(PODS, each, NS, grace=0)


async def test_a_claim_whose_volume_is_made_elsewhere_is_told_the_node(access: Access) -> None:
    async with stage(access, "b0") as client:
        await client.patch(NODES, "b0", {"metadata": {"labels": {HOST: "b0"}}})
        await make_class(client, "made", "disk.example.com", "WaitForFirstConsumer")
        await make_claim(client, "data", of="made")
        await client.create(PODS, pod("p", 0, **using("data")), NS)

        async def is_selected() -> bool:
            claim = await client.get(CLAIMS, "data", NS)
            return claim["metadata"].get("annotations", {}).get(SELECTED_NODE) == "b0"

        await eventually(is_selected)
        claim = await client.get(CLAIMS, "data", NS)
        known = claim["metadata"]
        await make_volume(client, "provisioned", "b0", of="made")
        reference = {"kind": CLAIMS.kind, "namespace": NS, "name": "data", "uid": known["uid"]}
        await client.patch(VOLUMES, "provisioned", {"spec": {"claimRef": reference}})
        await eventually(all_placed(client, ["p"]))
        assert await volume_of(client, "data") == "provisioned"
        await client.delete(PODS, "p", NS, grace=0)
