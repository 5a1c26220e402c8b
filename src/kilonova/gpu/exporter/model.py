"""What metrics are computed from. Values only."""

from collections.abc import Mapping

import msgspec

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.api.gpu.metrics import GpuReading
from kilonova.gpu.devices.model import DeviceTelemetry, NodeInventory


class DeviceUser(msgspec.Struct, frozen=True):
    """A container, and what it has of the node's devices."""

    namespace: str
    pod: str
    uid: str
    """Of the pod."""
    container: str
    devices: tuple[DeviceAssignment, ...]


class XidCount(msgspec.Struct, frozen=True):
    """How often an XID occurred on a device since the agent started, and when last (Unix time)."""

    device: str
    code: int
    count: int
    last: float


class MigCounts(msgspec.Struct, frozen=True):
    """MIG instances of a node that pods got, and that they gave back."""

    allocations: int = 0
    releases: int = 0


class NodeReading(msgspec.Struct, frozen=True):
    """A node at one moment: what it has, what was last measured, and who uses it."""

    node: str
    inventory: NodeInventory
    """With the health that the agent knows of."""
    telemetry: tuple[DeviceTelemetry, ...] = ()
    readings: tuple[GpuReading, ...] = ()
    """The utilisation of devices and instances as the console shows it."""
    users: tuple[DeviceUser, ...] = ()
    pods_of_processes: Mapping[int, str] = {}
    """The UID of the pod of each process that is in one, by its process id."""
    measured: float | None = None
    """When telemetry was last read, in Unix time; None if it never was."""
    xids: tuple[XidCount, ...] = ()
    mig: MigCounts = MigCounts()


class IdleNode(msgspec.Struct, frozen=True):
    """A node of which nothing is measured, since nothing has happened on it: its topology
    annotation specifies what it has."""

    node: str
    topology: str


class ExporterReading(msgspec.Struct, frozen=True):
    """All that an exporter serves at one moment."""

    nodes: tuple[NodeReading, ...]
    idle: tuple[IdleNode, ...] = ()
