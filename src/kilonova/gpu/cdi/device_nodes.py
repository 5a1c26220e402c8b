"""The device nodes of NVIDIA's driver on the host.

A GPU is `/dev/nvidiaN`, N being its minor number. A MIG instance is the node of its GPU and two
nodes in `/dev/nvidia-caps`, for its GPU instance and its compute instance; their numbers are in
`/proc/driver/nvidia/capabilities`. Every container also needs the control nodes.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from kilonova.gpu.cdi.spec import DeviceNode
from kilonova.gpu.devices.model import Device, MigInstance

CONTROL_NODES = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
)
_MINOR_LINE = re.compile(r"DeviceFileMinor:\s*(\d+)")
_CAPS_MAJOR = re.compile(r"^\s*(\d+)\s+nvidia-caps$", re.MULTILINE)


class DeviceNodes:
    """Finds device nodes below `root`, which is where this process sees the host's files.

    `procfs` is the host's `/proc`: containers see the host's driver in theirs, too.
    """

    def __init__(self, root: Path = Path("/"), procfs: Path = Path("/proc")) -> None:
        self._root = root
        self._procfs = procfs

    def control(self) -> tuple[DeviceNode, ...]:
        """The nodes that every container with a GPU needs."""
        return tuple(DeviceNode(path) for path in CONTROL_NODES if self._exists(path))

    def of_device(self, device: Device) -> tuple[DeviceNode, ...]:
        """The node of a GPU; none where it has none."""
        path = f"/dev/nvidia{device.minor}"
        return (DeviceNode(path),) if device.minor is not None and self._exists(path) else ()

    def of_instance(self, device: Device, instance: MigInstance) -> tuple[DeviceNode, ...]:
        """The nodes of a MIG instance, with that of its GPU."""
        return (*self.of_device(device), *self._capabilities(device, instance))

    def _capabilities(self, device: Device, instance: MigInstance) -> Iterator[DeviceNode]:
        folder = f"driver/nvidia/capabilities/gpu{device.minor}/mig/gi{instance.gpu_instance}"
        for access in (f"{folder}/access", f"{folder}/ci{instance.compute_instance}/access"):
            found = _MINOR_LINE.search(self._read(access))
            if found is None:
                continue
            path, minor = f"/dev/nvidia-caps/nvidia-cap{found[1]}", int(found[1])
            if self._exists(path):
                yield DeviceNode(path, permissions="r")
            elif (major := _CAPS_MAJOR.search(self._read("devices"))) is not None:
                # The runtime makes it in the container: nothing has used it on the host yet.
                yield DeviceNode(path, "", "c", int(major[1]), minor, "r")

    def _exists(self, path: str) -> bool:
        return (self._root / path.lstrip("/")).exists()

    def _read(self, path: str) -> str:
        try:
            return (self._procfs / path).read_text()
        except OSError:
            return ""
