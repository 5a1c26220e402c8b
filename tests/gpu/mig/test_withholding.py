"""No pod gets the whole of a device that is to be sliced."""

from msgspec.structs import replace

from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.mig.withholding import withheld_devices
from tests.gpu.devices.machines import simulate


def inventory() -> NodeInventory:
    """An H100 that is sliced, one that will be, one that is whole, and an L40S."""
    devices = list(simulate("h100:3").read_inventory().devices)
    devices.append(replace(simulate("l40s:1").read_inventory().devices[0], uuid="L40S", index=3))
    devices[0] = replace(devices[0], mig_enabled=True)
    return NodeInventory(tuple(devices))


def test_device_is_withheld_as_soon_as_it_is_to_be_sliced() -> None:
    node = inventory()
    later = {node.devices[1].uuid: "nvidia.com/mig.config all-1g.10gb"}
    found = withheld_devices(node, later)
    assert [(each.uuid, each.reason) for each in found] == [
        (node.devices[0].uuid, "MIG mode is enabled"),
        (node.devices[1].uuid, "nvidia.com/mig.config all-1g.10gb"),
    ]


def test_fresh_node_withholds_all_that_could_be_sliced() -> None:
    node = inventory()
    found = withheld_devices(node, {}, is_decided=False)
    assert [each.uuid for each in found] == [device.uuid for device in node.devices[:3]]
    assert len(withheld_devices(node, {})) == 1


def test_pending_mode_counts() -> None:
    device = replace(simulate("a100-80:1").read_inventory().devices[0], mig_pending=True)
    (found,) = withheld_devices(NodeInventory((device,)), {})
    assert found.reason == "MIG mode is enabled from the next reset on"
