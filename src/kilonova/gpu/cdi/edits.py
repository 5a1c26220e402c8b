"""What a container gets for the devices that it has. Pure, but for a look at the host's files."""

from collections.abc import Sequence

import msgspec

from kilonova.gpu.cdi.driver_files import HostDriver
from kilonova.gpu.cdi.spec import ContainerEdits, DeviceNode
from kilonova.gpu.devices.model import Device, MigInstance


class VisibleDevice(msgspec.Struct, frozen=True):
    """A GPU, or a MIG instance of it, that a container has."""

    device: Device
    instance: MigInstance | None = None

    @property
    def uuid(self) -> str:
        """The UUID by which CUDA selects it."""
        return self.device.uuid if self.instance is None else self.instance.uuid


def build_edits(devices: Sequence[VisibleDevice], driver: HostDriver) -> ContainerEdits:
    """Device nodes, files of the driver, and the variables that select the devices.

    `NVIDIA_VISIBLE_DEVICES` must be set always: CUDA's images set it to `all`, and where NVIDIA's
    own runtime is the default, it would obey.
    """
    uuids = ",".join(each.uuid for each in devices)
    env = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": uuids,
        "NVIDIA_VISIBLE_DEVICES": uuids or "void",
    }
    edits = ContainerEdits(tuple(f"{name}={value}" for name, value in env.items()))
    if driver.nodes is None or not devices:
        return edits
    found: dict[str, DeviceNode] = {}
    for each in devices:
        own = (
            driver.nodes.of_device(each.device)
            if each.instance is None
            else driver.nodes.of_instance(each.device, each.instance)
        )
        found.update((node.path, node) for node in own)
    nodes = (*found.values(), *driver.nodes.control())
    return msgspec.structs.replace(
        edits, device_nodes=nodes, mounts=driver.mounts, hooks=driver.hooks
    )
