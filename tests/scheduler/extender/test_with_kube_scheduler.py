"""The genuine kube-scheduler calls the extender: over HTTP with the embedded API server, over TLS
with client certificates with Kubernetes."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import connect
from tests.clients.client_cluster import wait_until
from tests.scheduler.extender.kube_scheduler import ExtendedScheduler, run_extended_scheduler

_MIG_TOPOLOGY = json.dumps({"gpus": [{}], "mig": "H100-80GB", "product": "NVIDIA-H100-80GB-HBM3"})
_LINKED = json.dumps({"gpus": [{}, {}], "links": [[0, 1, 100]]})
_UNLINKED = json.dumps({"gpus": [{}, {}]})
_TOPOLOGY = "gpu.kilonova.dev/topology"


@pytest.fixture(scope="module", params=["embedded", "kubernetes"])
def scenario(
    control_plane_binaries: Path,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ExtendedScheduler]:
    on_kubernetes = request.param == "kubernetes"
    server = request.getfixturevalue("control_plane" if on_kubernetes else "embedded_server")

    async def install() -> None:
        async with connect(server.access.kubeconfig) as client:
            await install_definitions(client)

    asyncio.run(install())
    folder = tmp_path_factory.mktemp("extended")
    with run_extended_scheduler(server.access, folder, https=on_kubernetes) as found:
        yield found


def test_pods_are_bound_with_devices_that_no_two_share(scenario: ExtendedScheduler) -> None:
    nodes = scenario.add_nodes(4, 4)
    names = [f"share-{number}" for number in range(8)]
    for name in names:
        scenario.add_pod(name, nodes)
    assigned = [scenario.wait_until_bound(name) for name in names]
    assert sorted(assigned) == [(node, str(index)) for node in nodes for index in range(4)]

    scenario.add_pod("one-too-many", nodes)
    scenario.wait_until_unschedulable("one-too-many", "Insufficient nvidia.com/gpu")
    assert not scenario.pod("one-too-many")["spec"].get("nodeName")


def test_restarted_extender_knows_device_assignments(scenario: ExtendedScheduler) -> None:
    nodes = scenario.add_nodes(2)
    scenario.add_pod("before", nodes)
    before = scenario.wait_until_bound("before")
    scenario.stop_extender()
    scenario.add_pod("meanwhile", nodes)
    scenario.start_extender()
    assert {before[1], scenario.wait_until_bound("meanwhile")[1]} == {"0", "1"}


def test_devices_are_chosen_by_their_links(scenario: ExtendedScheduler) -> None:
    (apart,) = scenario.add_nodes(2, annotations={_TOPOLOGY: _UNLINKED})
    required = {_TOPOLOGY: "NVLinkRequired"}
    scenario.add_pod("unlinked", [apart], 2, annotations=required)
    scenario.wait_until_unschedulable("unlinked", "too few free GPUs joined by NVLink")
    (linked,) = scenario.add_nodes(2, annotations={_TOPOLOGY: _LINKED})
    scenario.add_pod("linked", [linked], 2, annotations=required)
    assert scenario.wait_until_bound("linked") == (linked, "0,1")


def test_unresolvable_reasons_are_shown_in_events(scenario: ExtendedScheduler) -> None:
    nodes = scenario.add_nodes(2)
    scenario.add_pod("huge", nodes, annotations={"gpu.kilonova.dev/min-memory": "200000"})
    scenario.wait_until_unschedulable("huge", "node(s) had fewer than 1 GPU of 200000 MiB")
    scenario.add_pod("odd", nodes, annotations={"gpu.kilonova.dev/min-memory": "lots"})
    scenario.wait_until_unschedulable("odd", "'lots' is not a GPU memory size in MiB")


def test_mig_instances_are_assigned_before_nodes_advertise_them(
    scenario: ExtendedScheduler,
) -> None:
    nodes = scenario.add_nodes(1, annotations={_TOPOLOGY: _MIG_TOPOLOGY})
    resource = "nvidia.com/mig-3g.40gb"
    for name in ("half-a", "half-b"):
        scenario.add_pod(name, nodes, resource=resource)
    assigned = {scenario.wait_until_bound(name)[1] for name in ("half-a", "half-b")}
    assert assigned == {"0:3g.40gb@0", "0:3g.40gb@4"}
    scenario.add_pod("half-c", nodes, resource=resource)
    scenario.wait_until_unschedulable(
        "half-c", "insufficient free slices for 1 MIG instance 3g.40gb"
    )


def test_preemption_frees_capacity_without_breaking_a_gang(scenario: ExtendedScheduler) -> None:
    nodes = scenario.add_nodes(2, 2, 1)
    members = {"member-0": nodes[0], "member-1": nodes[0], "member-2": nodes[2]}
    others = {"other-0": nodes[1], "other-1": nodes[1]}
    scenario.add_gang("gang", list(members))
    for name, place in (members | others).items():
        scenario.add_pod(name, nodes, nodeName=place)
    scenario.add_pod("important", nodes, urgent=True)
    assert scenario.wait_until_bound("important")[0] == nodes[1]
    wait_until(
        lambda: [scenario.exists(name) for name in others], lambda existing: sum(existing) == 1
    )

    # Two GPUs can be freed only by the gang, which would fall below its minimum.
    scenario.add_pod("too-important", nodes, 2, urgent=True)
    scenario.wait_until_unschedulable("too-important", "Insufficient nvidia.com/gpu")
    assert all(scenario.exists(name) for name in members)


def test_explain_shows_what_would_be_chosen(scenario: ExtendedScheduler) -> None:
    nodes = scenario.add_nodes(2)
    scenario.add_pod("curious", nodes, schedulingGates=[{"name": "example.com/wait"}])
    (best,) = scenario.explain("curious")["nodes"]
    assert (best["node"], best["devices"]) == (nodes[0], "0")
    assert best["pluginScores"].keys() >= {"topology", "fit", "balance"}
