"""What is known of the GPUs of a node. Values only.

Amounts have the unit in their name, or are those of the annotation of the node
(`kilonova.api.gpu.annotations`): memory of a device in MiB, bandwidth in GB/s in both directions
together. None is unknown: a backend that cannot read something reports it, and never guesses.
"""

from enum import StrEnum

import msgspec

from kilonova.catalog.mig import MigGeometry


class HealthState(StrEnum):
    """How a device is; the first two may be used."""

    HEALTHY = "Healthy"
    DEGRADED = "Degraded"
    """It works, with less: throttled, a link down, rows to be remapped."""
    UNHEALTHY = "Unhealthy"
    """No pod gets it."""
    UNKNOWN = "Unknown"


class DeviceHealth(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The health of a device, and why it is not healthy."""

    state: HealthState = HealthState.HEALTHY
    reasons: tuple[str, ...] = ()
    """For people, most important first: `XID 79: the GPU has fallen off the bus`."""
    is_transient: bool = False
    """Whether it may recover without a reset or a reboot."""


class MigInstance(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A MIG instance: a GPU instance with one compute instance that has all of it.

    Where its creation was cut off, there may be a GPU instance alone: it occupies slices, nothing
    can use it, and it can only be destroyed. Its UUID is `partial_instance_uuid`, since the driver
    gives none.
    """

    uuid: str
    profile: str
    start: int
    slices: int = 1
    """Memory slices that it occupies from its start."""
    gpu_instance: int = 0
    compute_instance: int = 0
    """The ids of the driver, unique on the device; no compute instance is -1."""
    memory_mib: int = 0
    sms: int = 0

    @property
    def is_partial(self) -> bool:
        """Whether it lacks a compute instance, so that nothing can use it."""
        return self.compute_instance < 0


def partial_instance_uuid(device: str, gpu_instance: int) -> str:
    """What names a GPU instance without compute instance."""
    return f"GI-{device}/{gpu_instance}"


class MigResources(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What an instance of a MIG profile has, apart from its slices."""

    profile: str
    memory_mib: int = 0
    sms: int = 0
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0


class NvLinkPort(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One NVLink of a device."""

    link: int
    is_active: bool
    version: int = 0
    remote: str = ""
    """PCI address of what it leads to; empty if unknown."""
    is_switch: bool = False
    """Whether it leads to an NVSwitch."""
    errors: int = 0


class Fabric(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The NVLink domain of a device that reaches beyond its machine (GB200 NVL72 and the like)."""

    cluster: str
    """UUID of the domain."""
    clique: int
    state: str = "completed"
    """not-started, in-progress or completed."""
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The domain as in the label `nvidia.com/gpu.clique`."""
        return f"{self.cluster}.{self.clique}"


class Device(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A GPU of a node, apart from what changes all the time."""

    index: int
    uuid: str
    pci: str = ""
    """Its PCI address in the form of the kernel: `0000:18:00.0`."""
    pci_id: int = 0
    """Its PCI device and vendor as NVML packs them, `0x233510DE`; 0 is unknown."""
    product: str = ""
    """As NVML names it: `NVIDIA H200`."""
    architecture: str = ""
    capability: tuple[int, int] | None = None
    memory_mib: int = 0
    sms: int | None = None
    serial: str = ""
    minor: int | None = None
    """N of `/dev/nvidiaN`."""
    numa: int = -1
    pcie_switch: str = ""
    """Equal for devices behind the same PCIe switch."""
    pcie_generation: int | None = None
    pcie_width: int | None = None
    max_sm_clock_mhz: int | None = None
    max_memory_clock_mhz: int | None = None
    power_limit_watts: float | None = None
    nvlinks: tuple[NvLinkPort, ...] = ()
    fabric: Fabric | None = None
    geometry: MigGeometry | None = None
    """The MIG profiles and placements as read from the device; None without MIG."""
    mig_resources: tuple[MigResources, ...] = ()
    """Of each profile; empty where the device does not report it."""
    mig_enabled: bool = False
    mig_pending: bool | None = None
    """The MIG mode after the next reset, where it differs."""
    instances: tuple[MigInstance, ...] = ()
    health: DeviceHealth = DeviceHealth()
    withheld: str = ""
    """Why pods get MIG instances of it only, as the node agent has decided."""


class PathKind(StrEnum):
    """The closest connection of two devices, as `nvidia-smi topo -m` names it."""

    SELF = "X"
    NVLINK = "NV"
    INTERNAL = "INT"
    """On one board."""
    PCIE_SWITCH = "PIX"
    PCIE_SWITCHES = "PXB"
    HOST_BRIDGE = "PHB"
    NODE = "NODE"
    """Host bridges of one NUMA node."""
    SYSTEM = "SYS"
    """Between NUMA nodes."""


class DevicePath(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """How two devices of a node are connected; the lower index first, each pair once."""

    first: int
    second: int
    kind: PathKind
    nvlinks: int = 0
    bandwidth: int = 0
    """Of the NVLinks between them in GB/s; behind an NVSwitch it is that of one device's port."""
    is_switched: bool = False
    """Through an NVSwitch: the port is shared by all paths of the device."""


class NodeInventory(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The GPUs of a node, in the order of their index, and how they are connected."""

    devices: tuple[Device, ...] = ()
    paths: tuple[DevicePath, ...] = ()
    driver: str = ""
    cuda: str = ""
    """The CUDA version of the driver: `13.0`."""
    backend: str = ""
    """The backend that read it."""

    def find(self, uuid: str) -> Device | None:
        """The device of that UUID."""
        return next((each for each in self.devices if each.uuid == uuid), None)


class ProcessUsage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a process uses of a device."""

    pid: int
    memory_bytes: int | None = None
    utilisation: float | None = None
    """Share of the time in which it kept SMs busy, 0 to 1; None on MIG instances."""
    gpu_instance: int | None = None
    compute_instance: int | None = None


class Activity(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """How busy a device, or a MIG instance, is: shares of the time, 0 to 1. For an instance they
    are relative to what the instance has."""

    gpu: float | None = None
    """A kernel was running (GPU_UTIL)."""
    memory_copy: float | None = None
    sm_active: float | None = None
    sm_occupancy: float | None = None
    tensor: float | None = None
    dram: float | None = None
    encoder: float | None = None
    decoder: float | None = None


class InstanceTelemetry(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What is measured of a MIG instance."""

    uuid: str
    gpu_instance: int = 0
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    activity: Activity = Activity()


class DeviceTelemetry(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What is measured of a device."""

    uuid: str
    activity: Activity = Activity()
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    power_watts: float | None = None
    energy_millijoules: int | None = None
    """Since the driver was loaded."""
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    pcie_sent_bytes: int | None = None
    pcie_received_bytes: int | None = None
    """Per second."""
    pcie_replays: int | None = None
    nvlink_bytes: int | None = None
    """Of all its NVLinks, both directions, per second."""
    throttle_reasons: tuple[str, ...] = ()
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    """Since the driver was loaded."""
    rows_remapped_corrected: int | None = None
    rows_remapped_uncorrected: int | None = None
    row_remap_pending: bool | None = None
    row_remap_failed: bool | None = None
    last_xid: int = 0
    """The last XID since the backend was opened; 0 is none."""
    processes: tuple[ProcessUsage, ...] = ()
    instances: tuple[InstanceTelemetry, ...] = ()


class EventKind(StrEnum):
    """What a device reports by itself."""

    XID = "Xid"
    ECC_CORRECTED = "EccCorrected"
    ECC_UNCORRECTED = "EccUncorrected"
    MIG_CHANGED = "MigChanged"
    """MIG mode or instances were changed by another program."""
    DEVICE_LOST = "DeviceLost"
    DEVICE_RECOVERED = "DeviceRecovered"


class GpuEvent(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """An event of a device."""

    kind: EventKind
    uuid: str
    """Of the device; empty where the driver does not report it."""
    code: int = 0
    """Of an XID."""
    pids: tuple[int, ...] = ()
    """The processes that it concerns, where they are known."""
