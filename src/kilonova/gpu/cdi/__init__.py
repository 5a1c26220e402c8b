"""How devices get into containers: the Container Device Interface.

A **spec** (`spec`) is a JSON file that specifies what containers with a device get: device nodes,
mounts, environment variables. The container runtime reads all specs of its folders, the kubelet
names the devices of a container. Here a device of a spec is not one GPU, but **what one holder
has**: all GPUs of a container, or of a request of a claim. So the environment variables that select
several devices come from one place, and a spec is written once and removed with its holder
(`folder`).

- `device_nodes` finds the device nodes of GPUs and MIG instances on the host, `driver_files` the
  libraries and commands of the driver. Where there is no driver, or the devices are simulated, a
  container gets environment variables alone.
- `edits` is what a container gets for some devices.
"""

from kilonova.gpu.cdi.driver_files import HostDriver, find_driver
from kilonova.gpu.cdi.edits import VisibleDevice, build_edits
from kilonova.gpu.cdi.folder import CdiFolder
from kilonova.gpu.cdi.spec import ContainerEdits, qualified_name

__all__ = [
    "CdiFolder",
    "ContainerEdits",
    "HostDriver",
    "VisibleDevice",
    "build_edits",
    "find_driver",
    "qualified_name",
]
