"""The shares of pods that an agent finds when it starts."""

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.gpu.kubelet.holdings import HeldDevice, HolderKind, Holding
from kilonova.gpu.process.sharing import find_shares
from kilonova.gpu.sharing.mps.sharing import DeviceShare
from kilonova.gpu.sharing.shares import MpsShare
from tests.gpu.agent.builders import machine

INVENTORY = machine("h100:2")
UUID = INVENTORY.devices[1].uuid


def holding(uid: str, kind: HolderKind, assignment: DeviceAssignment) -> Holding:
    return Holding(kind, uid, "default", uid, (HeldDevice(UUID, assignment),))


def test_pods_with_a_share_get_it_back() -> None:
    share = holding("half", HolderKind.POD, DeviceAssignment(1, 500, memory=250))
    found = find_shares(INVENTORY, [share])
    assert found == {"half": DeviceShare(UUID, MpsShare(50, 81559 * 250 // 1000))}


def test_whole_devices_instances_and_claims_have_no_share() -> None:
    others = [
        holding("whole", HolderKind.POD, DeviceAssignment(1)),
        holding("slice", HolderKind.POD, DeviceAssignment(1, 0, "1g.10gb", 0)),
        holding("claim", HolderKind.CLAIM, DeviceAssignment(1, 500)),
    ]
    assert find_shares(INVENTORY, others) == {}


def test_share_of_a_device_that_is_gone_is_left_out() -> None:
    gone = Holding(
        HolderKind.POD, "a", "default", "a", (HeldDevice("GPU-x", DeviceAssignment(1, 500)),)
    )
    assert find_shares(INVENTORY, [gone]) == {}
