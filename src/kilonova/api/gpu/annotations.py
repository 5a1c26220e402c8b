"""GPU annotations: the devices of a node, the devices assigned to a pod, and a pod's preferences.

A pod's `gpu.kilonova.dev/devices` lists its assigned devices, separated by commas: `INDEX` is a
whole device, `INDEX:MILLI` a share of one in thousandths, `INDEX:MILLI/MEMORY` one whose part of
the memory differs from that of the compute capacity, `INDEX:PROFILE@START` a MIG instance and its
first memory slice: `0,1`, `3:500`, `3:500/250`, `2:1g.10gb@4`.

A node's `gpu.kilonova.dev/topology` is a JSON object, written by the node agent:

    {"product": "NVIDIA-H100-80GB-HBM3", "memory": 81559, "architecture": "Hopper", "sms": 132,
     "port": 900,
     "gpus": [{"uuid": "GPU-…", "pci": "0000:18:00.0", "numa": 0, "pcie": "0000:15"},
              {"uuid": "GPU-…", "pci": "0000:2a:00.0", "numa": 0, "pcie": "0000:15",
               "migEnabled": true,
               "instances": [{"uuid": "MIG-…", "profile": "1g.10gb", "start": 4}]},
              {"uuid": "GPU-…", "healthy": false, "reason": "XID 79: …"}, …],
     "links": [[0, 1, 100]],
     "mig": "H100-80GB",
     "geometries": {"my part": [{"name": "1g.10gb", "compute": 1, "slices": 1,
                                 "starts": [0, 1, 2, 3, 4, 5, 6], "limit": 7}, …]}}

`gpus` are in the order of their index. `product`, `memory` (MiB), `architecture`, `sms` (streaming
multiprocessors), `port` (GB/s to an NVSwitch, both directions) and `mig` may be set for each
device, or once as the default of all devices. `uuid` and `pci` (the PCI address) identify a device,
also where a DRA driver publishes it; `pcie` names its PCIe switch. `links` are direct NVLinks: two
indices and GB/s, both directions. `mig` is present where MIG instances may be created, and names a
geometry: one of `geometries`, as read from the device, or one that Kilonova knows. `migEnabled` is
the current MIG mode, `instances` what exists, each from its first memory slice. `reason` states why
a device is unhealthy. `withheld` states why pods get MIG instances of a device only, and neither
all of it nor shares: it is to be partitioned. Everything but `gpus` is optional, and unknown fields
are ignored, so that older readers accept newer writers.
"""

import re
from functools import lru_cache
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

DEVICES = "gpu.kilonova.dev/devices"
TOPOLOGY = "gpu.kilonova.dev/topology"
"""On a node: its devices. On a pod: how closely its devices should be connected."""
AGENT = "gpu.kilonova.dev/agent"
"""On a node: the version of the node agent that publishes its GPUs and makes its MIG instances."""
MILLI = "gpu.kilonova.dev/milli"
"""On a pod: the share of one device that it requests, in thousandths."""
MEMORY = "gpu.kilonova.dev/memory"
"""On a pod: the memory of the share that it requests, in MiB; without it, in proportion to the
share. Without a share, the share is in proportion to the memory."""
MIN_MEMORY = "gpu.kilonova.dev/min-memory"
"""On a pod: the minimum memory of each of its devices, in MiB."""
MIN_BANDWIDTH = "gpu.kilonova.dev/min-bandwidth"
"""On a pod: the minimum bandwidth between its devices, in GB/s."""
MODEL = "gpu.kilonova.dev/model"
"""On a pod: the accepted GPU models, separated by commas."""
ARCHITECTURE = "gpu.kilonova.dev/architecture"
"""On a pod: the required architecture of its devices."""

Count: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 31)]
"""An amount: GB/s, MiB, an index."""

_WHOLE_DEVICE_MILLI = 1000
_assignment_pattern = re.compile(
    r"(\d{1,4})(?::(?:(\d{1,4})(?:/(\d{1,4}))?|(\d+g\.\d+gb[a-z+.-]*)@(\d)))?", re.ASCII
)
_pci_pattern = re.compile(
    r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.ASCII | re.IGNORECASE
)


class InvalidAnnotation(msgspec.Struct, frozen=True):
    """An annotation that cannot be parsed, and why."""

    annotation: str
    problem: str

    def __str__(self) -> str:
        return f"annotation {self.annotation}: {self.problem}"


class DeviceAssignment(msgspec.Struct, frozen=True, gc=False):
    """What a pod is assigned of one device: a share in thousandths, or a MIG instance.

    `memory` is the part of the memory, in thousandths, where it differs from `milli`.
    """

    index: int
    milli: int = _WHOLE_DEVICE_MILLI
    profile: str = ""
    start: int = 0
    memory: int | None = None

    @property
    def memory_milli(self) -> int:
        """The part of the memory, in thousandths."""
        return self.milli if self.memory is None else self.memory

    @property
    def is_whole(self) -> bool:
        """Whether no other pod shares the device."""
        return self.milli == _WHOLE_DEVICE_MILLI and not self.profile

    def __str__(self) -> str:
        if self.profile:
            return f"{self.index}:{self.profile}@{self.start}"
        if self.memory is not None and self.memory != self.milli:
            return f"{self.index}:{self.milli}/{self.memory}"
        return str(self.index) if self.is_whole else f"{self.index}:{self.milli}"


class MigInstance(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A MIG instance that exists on a device, from its first memory slice."""

    uuid: str
    profile: str
    start: Count = 0


class Gpu(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One device of a node; unset fields default to the node's."""

    uuid: str = ""
    product: str | None = None
    memory: Count | None = None
    architecture: str | None = None
    port: Count | None = None
    mig: str | None = None
    numa: int = -1
    pcie: str = ""
    """Name of its PCIe switch."""
    healthy: bool = True
    pci: str = ""
    """Its PCI address."""
    sms: Count | None = None
    mig_enabled: bool = False
    instances: tuple[MigInstance, ...] = ()
    reason: str = ""
    """Why it is unhealthy."""
    withheld: str = ""
    """Why pods get MIG instances of it only."""


class ReportedMigProfile(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A MIG profile as the device reports it; `extended` ones include the media extensions."""

    name: str
    slices: Count
    starts: tuple[Count, ...]
    limit: Count
    compute: Count = 0
    extended: bool = False


class Topology(msgspec.Struct, frozen=True, omit_defaults=True):
    """The devices of a node."""

    gpus: Annotated[tuple[Gpu, ...], Meta(max_length=64)]
    links: tuple[tuple[Count, Count, Count], ...] = ()
    product: str = ""
    memory: Count = 0
    architecture: str = ""
    port: Count = 0
    mig: str = ""
    geometries: dict[str, tuple[ReportedMigProfile, ...]] = {}
    sms: Count = 0


def format_devices(assignments: tuple[DeviceAssignment, ...]) -> str:
    """Format the annotation's value."""
    return ",".join(map(str, assignments))


def parse_devices(text: str) -> tuple[DeviceAssignment, ...] | InvalidAnnotation:
    """Parse the assigned devices. Spaces around commas are allowed."""
    assignments: list[DeviceAssignment] = []
    for part in text.split(",") if text.strip() else []:
        found = _assignment_pattern.fullmatch(part.strip())
        if found is None:
            expected = "expected INDEX, INDEX:MILLI, INDEX:MILLI/MEMORY or INDEX:PROFILE@START"
            return InvalidAnnotation(DEVICES, f"{part.strip()!r}: {expected}")
        index, milli, memory, profile, start = found.groups()
        given = [int(each) for each in (milli, memory) if each is not None]
        if not all(0 < each <= _WHOLE_DEVICE_MILLI for each in given):
            return InvalidAnnotation(
                DEVICES, f"{part.strip()!r}: a share must be between 1 and {_WHOLE_DEVICE_MILLI}"
            )
        if profile:
            assignments.append(DeviceAssignment(int(index), 0, profile, int(start)))
        else:
            share = int(milli or _WHOLE_DEVICE_MILLI)
            part_of_memory = None if memory in (None, milli) else int(memory)
            assignments.append(DeviceAssignment(int(index), share, memory=part_of_memory))
    return tuple(assignments)


@lru_cache(maxsize=4096)
def normalize_pci_address(text: str) -> str:
    """A PCI address in the kernel's form, `0000:18:00.0`: NVML writes eight digits of the domain.
    Any other text stays as it is, in lower case."""
    found = _pci_pattern.fullmatch(text.strip())
    if found is None:
        return text.strip().lower()
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}".lower()


def format_topology(topology: Topology) -> str:
    """Format the annotation's value, without whitespace."""
    return msgspec.json.encode(topology).decode()


def parse_topology(text: str) -> Topology | InvalidAnnotation:
    """Parse the devices of a node."""
    try:
        return msgspec.json.decode(text, type=Topology)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return InvalidAnnotation(TOPOLOGY, str(error))
