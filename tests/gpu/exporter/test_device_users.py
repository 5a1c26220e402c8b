"""Which containers have what, by annotations, holdings and claims."""

from typing import Any

import msgspec
import pytest

from kilonova.api.gpu.annotations import DEVICES, DeviceAssignment
from kilonova.gpu.agent.resources import Pod
from kilonova.gpu.agent.simulated.claim_objects import Claim
from kilonova.gpu.agent.simulated.node_readings import list_claim_holdings
from kilonova.gpu.agent.telemetry.device_users import list_device_users
from kilonova.gpu.agent.telemetry.mig_allocations import MigAllocationCounter
from kilonova.gpu.dra.resource_slices import list_pool_devices
from kilonova.gpu.exporter import MigCounts
from kilonova.gpu.kubelet.holdings import HeldDevice, HolderKind, Holding
from tests.gpu.agent.builders import machine
from tests.gpu.exporter.readings import user


def pod(name: str, devices: str = "", *containers: Any, **spec: Any) -> Pod:
    """A running pod, as the API has it."""
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "annotations": {DEVICES: devices} if devices else {},
        },
        "spec": {
            "nodeName": "node-a",
            "containers": containers or [{"name": "main"}],
            "resourceClaims": spec.pop("claims", []),
        },
        "status": {"phase": "Running", **spec},
    }
    return msgspec.convert(body, Pod)


def container(name: str, **limits: int) -> Any:
    found = {f"nvidia.com/{key}": str(value) for key, value in limits.items()}
    return {"name": name, "resources": {"limits": {"cpu": "1", **found}}}


def claiming(name: str, claim: str, request: str = "") -> Any:
    return {"name": name, "resources": {"claims": [{"name": claim, "request": request}]}}


def describe(*pods: Pod, holdings: tuple[Holding, ...] = ()) -> list[str]:
    users = list_device_users(pods, machine("h100:4"), holdings)
    return [f"{each.pod}/{each.container}: {','.join(map(str, each.devices))}" for each in users]


SIDE = {"name": "side"}
MIG = {"name": "main", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod("a", "0,1"), ["a/main: 0,1"]),
        (pod("a", "0", SIDE, container("main", gpu=1)), ["a/main: 0"]),
        (
            pod("a", "0,1,2", container("one", gpu=2), container("two", gpu=1)),
            ["a/one: 0,1", "a/two: 2"],
        ),
        (pod("a", "2:1g.10gb@4", SIDE, MIG), ["a/main: 2:1g.10gb@4"]),
        (pod("a", "0:500", SIDE, {"name": "main"}), ["a/: 0:500"]),
        (pod("a", "nonsense"), []),
        (pod("a", "0", phase="Succeeded"), []),
        (pod("a"), []),
    ],
    ids=["one", "sidecar", "two", "mig", "share of several", "invalid", "ended", "none"],
)
def test_annotation_is_divided_among_containers(found: Pod, expected: list[str]) -> None:
    assert describe(found) == expected


def test_holdings_say_which_container_has_what_and_indices_are_those_of_now() -> None:
    inventory = machine("h100:4")
    held = HeldDevice(inventory.devices[3].uuid, DeviceAssignment(0))
    gone = HeldDevice("GPU-gone", DeviceAssignment(1))
    watched = HeldDevice(inventory.devices[2].uuid, DeviceAssignment(2), is_admin=True)
    holding = Holding(
        HolderKind.POD, "uid-a", "default", "a", (held, gone, watched), container="two"
    )
    found = pod("a", "0", container("one", gpu=1), container("two", gpu=1))
    assert describe(found, holdings=(holding,)) == ["a/two: 3"]


def test_claims_are_attributed_to_the_containers_that_use_them() -> None:
    uuids = [each.uuid for each in machine("h100:4").devices]
    devices = (
        HeldDevice(uuids[0], DeviceAssignment(0), request="big"),
        HeldDevice(uuids[1], DeviceAssignment(1), request="small/first"),
    )
    holding = Holding(HolderKind.CLAIM, "uid-claim", "default", "shared", devices)
    other = Holding(HolderKind.CLAIM, "uid-other", "elsewhere", "shared", devices)
    named = pod(
        "a",
        "",
        claiming("one", "gpus", "big"),
        claiming("two", "gpus", "small"),
        claims=[{"name": "gpus", "resourceClaimName": "shared"}],
    )
    generated = pod(
        "b",
        "",
        claiming("main", "gpus"),
        claims=[{"name": "gpus"}],
        resourceClaimStatuses=[{"name": "gpus", "resourceClaimName": "shared"}],
    )
    assert describe(named, generated, holdings=(other, holding)) == [
        "a/one: 0",
        "a/two: 1",
        "b/main: 0,1",
    ]


def test_mig_instances_are_counted_as_pods_get_and_give_them_back() -> None:
    counter = MigAllocationCounter()
    before = user("a", "0:1g.10gb@0")
    counter.start("node-a", [before])
    assert counter.counts("node-a") == MigCounts(0, 0)
    counter.observe("node-a", [before, user("b", "0:1g.10gb@1,1:2g.20gb@0"), user("c", "2")])
    counter.observe("node-a", [user("b", "0:1g.10gb@1")])
    assert counter.counts("node-a") == MigCounts(2, 2)
    counter.observe("node-b", [user("d", "0:1g.10gb@0")])
    assert counter.counts("node-b") == MigCounts(1, 0)


def test_claims_on_simulated_nodes_are_held_as_their_driver_would_note_it() -> None:
    inventory = machine("h100:4")
    names = {each.assignment: name for name, each in list_pool_devices(inventory).items()}
    second = names[DeviceAssignment(1)]
    body = {
        "metadata": {"name": "gpus", "namespace": "default", "uid": "c", "resourceVersion": "1"},
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "one", "driver": "d", "pool": "node-a", "device": second},
                        {"request": "two", "driver": "d", "pool": "node-b", "device": second},
                        {
                            "request": "all",
                            "driver": "d",
                            "pool": "node-a",
                            "device": second,
                            "adminAccess": True,
                        },
                    ]
                }
            }
        },
    }
    claim = msgspec.convert(body, Claim)
    holdings = list_claim_holdings("node-a", inventory, [claim])
    found = pod(
        "a",
        "",
        claiming("main", "mine", "one"),
        claims=[{"name": "mine", "resourceClaimName": "gpus"}],
    )
    assert describe(found, holdings=holdings) == ["a/main: 1"]
