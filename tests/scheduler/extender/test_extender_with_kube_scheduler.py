"""The genuine kube-scheduler calls the extender, on both servers: over HTTP on the embedded one,
over TLS with client certificates on Kubernetes."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import connect
from tests.clients.ground import until
from tests.harness.controlplane import HOW_TO_GET, binaries
from tests.scheduler.extender.genuine_scheduler import Extended, extended

_SPLIT = json.dumps({"gpus": [{}], "mig": "H100-80GB", "product": "NVIDIA-H100-80GB-HBM3"})
_LINKED = json.dumps({"gpus": [{}, {}], "links": [[0, 1, 100]]})
_APART = json.dumps({"gpus": [{}, {}]})
_TOPOLOGY = "gpu.kilonova.dev/topology"


@pytest.fixture(scope="module", params=["embedded", "kubernetes"])
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Extended]:
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    on_kubernetes = request.param == "kubernetes"
    server = request.getfixturevalue("control_plane" if on_kubernetes else "embedded_server")

    async def install() -> None:
        async with connect(server.access.kubeconfig) as client:
            await install_definitions(client)

    asyncio.run(install())
    folder = tmp_path_factory.mktemp("extended")
    with extended(server.access, folder, https=on_kubernetes) as found:
        yield found


def test_pods_are_bound_with_devices_that_no_two_share(scene: Extended) -> None:
    nodes = scene.add_nodes(4, 4)
    names = [f"share-{number}" for number in range(8)]
    for name in names:
        scene.add_pod(name, nodes)
    given = [scene.until_bound(name) for name in names]
    assert sorted(given) == [(node, str(index)) for node in nodes for index in range(4)]

    scene.add_pod("one-too-many", nodes)
    scene.until_refused("one-too-many", "Insufficient nvidia.com/gpu")
    assert not scene.pod("one-too-many")["spec"].get("nodeName")


def test_a_restarted_extender_knows_who_has_which_device(scene: Extended) -> None:
    nodes = scene.add_nodes(2)
    scene.add_pod("before", nodes)
    before = scene.until_bound("before")
    scene.stop_extender()
    scene.add_pod("meanwhile", nodes)
    scene.start_extender()
    assert {before[1], scene.until_bound("meanwhile")[1]} == {"0", "1"}


def test_devices_are_chosen_by_their_links(scene: Extended) -> None:
    (apart,) = scene.add_nodes(2, annotations={_TOPOLOGY: _APART})
    wish = {_TOPOLOGY: "NVLinkRequired"}
    scene.add_pod("unlinked", [apart], 2, annotations=wish)
    scene.until_refused("unlinked", "too few free GPUs joined by NVLink")
    (linked,) = scene.add_nodes(2, annotations={_TOPOLOGY: _LINKED})
    scene.add_pod("linked", [linked], 2, annotations=wish)
    assert scene.until_bound("linked") == (linked, "0,1")


def test_what_can_never_be_is_told_in_our_words(scene: Extended) -> None:
    nodes = scene.add_nodes(2)
    scene.add_pod("huge", nodes, annotations={"gpu.kilonova.dev/min-memory": "200000"})
    scene.until_refused("huge", "node(s) had fewer than 1 GPU of 200000 MiB")
    scene.add_pod("odd", nodes, annotations={"gpu.kilonova.dev/min-memory": "lots"})
    scene.until_refused("odd", "'lots' is no memory of a GPU: write MiB")


def test_mig_instances_are_given_where_no_node_offers_them_yet(scene: Extended) -> None:
    nodes = scene.add_nodes(1, annotations={_TOPOLOGY: _SPLIT})
    resource = "nvidia.com/mig-3g.40gb"
    for name in ("half-a", "half-b"):
        scene.add_pod(name, nodes, resource=resource)
    given = {scene.until_bound(name)[1] for name in ("half-a", "half-b")}
    assert given == {"0:3g.40gb@0", "0:3g.40gb@4"}
    scene.add_pod("half-c", nodes, resource=resource)
    scene.until_refused("half-c", "no place for 1 MIG instance 3g.40gb")


def test_preemption_makes_room_but_tears_no_gang_apart(scene: Extended) -> None:
    nodes = scene.add_nodes(2, 2, 1)
    members = {"member-0": nodes[0], "member-1": nodes[0], "member-2": nodes[2]}
    others = {"other-0": nodes[1], "other-1": nodes[1]}
    scene.add_gang("gang", list(members))
    for name, place in (members | others).items():
        scene.add_pod(name, nodes, nodeName=place)
    scene.add_pod("important", nodes, urgent=True)
    assert scene.until_bound("important")[0] == nodes[1]
    until(lambda: [scene.exists(name) for name in others], lambda there: sum(there) == 1)

    # Two GPUs are to be had only from the gang, of which one pod would be left over.
    scene.add_pod("too-important", nodes, 2, urgent=True)
    scene.until_refused("too-important", "Insufficient nvidia.com/gpu")
    assert all(scene.exists(name) for name in members)


def test_explain_shows_what_would_be_chosen(scene: Extended) -> None:
    nodes = scene.add_nodes(2)
    scene.add_pod("curious", nodes, schedulingGates=[{"name": "example.com/wait"}])
    (best,) = scene.explain("curious")["nodes"]
    assert (best["node"], best["devices"]) == (nodes[0], "0")
    assert best["parts"].keys() >= {"topology", "fit", "balance"}
