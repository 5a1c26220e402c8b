"""What annotations say about GPUs: which a node has, which a pod is given, which it wishes for.

A pod's `gpu.kilonova.dev/devices` lists what it is given, separated by commas: `INDEX` is a whole
device, `INDEX:MILLI` a share of one in thousandths, `INDEX:PROFILE@START` a MIG instance from a
memory slice on: `0,1`, `3:500`, `2:1g.10gb@4`.

A node's `gpu.kilonova.dev/topology` is a JSON object, written by who knows the devices:

    {"product": "NVIDIA-H100-80GB-HBM3", "memory": 81559, "architecture": "Hopper", "port": 900,
     "gpus": [{"uuid": "GPU-…", "numa": 0, "pcie": "0000:15"}, {"numa": 0, "pcie": "0000:15"}, …],
     "links": [[0, 1, 100]],
     "mig": "H100-80GB",
     "geometries": {"my part": [{"name": "1g.10gb", "compute": 1, "slices": 1,
                                 "starts": [0, 1, 2, 3, 4, 5, 6], "limit": 7}, …]}}

`gpus` stand in the order of their index. `product`, `memory` (MiB), `architecture`, `port` (GB/s to
an NVSwitch, both directions) and `mig` may be said of each device, or once for all that do not say
it themselves. `links` are direct NVLinks: two indices and GB/s, both directions. `mig` is present
where instances may be made, and names a geometry: one of `geometries`, as read from the device, or
one that Kilonova knows. Everything but `gpus` may be left out, and what is not known here is
ignored, so that older readers live with newer writers.
"""

import re
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

DEVICES = "gpu.kilonova.dev/devices"
TOPOLOGY = "gpu.kilonova.dev/topology"
"""Of a node: its devices. Of a pod: how its devices should stand to each other."""
MILLI = "gpu.kilonova.dev/milli"
"""Of a pod: the share of one device that it asks for, in thousandths."""
MIN_MEMORY = "gpu.kilonova.dev/min-memory"
"""Of a pod: the MiB that each of its devices has at least."""
MIN_BANDWIDTH = "gpu.kilonova.dev/min-bandwidth"
"""Of a pod: the GB/s that its devices can exchange at least."""
MODEL = "gpu.kilonova.dev/model"
"""Of a pod: the models that will do, separated by commas."""
ARCHITECTURE = "gpu.kilonova.dev/architecture"
"""Of a pod: the architecture of its devices."""

Count: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 31)]
"""An amount: GB/s, MiB, an index."""

_WHOLE = 1000
_assignment = re.compile(r"(\d{1,4})(?::(?:(\d{1,4})|(\d+g\.\d+gb[a-z+.-]*)@(\d)))?", re.ASCII)


class Unreadable(msgspec.Struct, frozen=True):
    """An annotation that says nothing, and why."""

    annotation: str
    problem: str

    def __str__(self) -> str:
        return f"annotation {self.annotation}: {self.problem}"


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """What a pod is given of one device: milli of it, or an instance of a MIG profile."""

    index: int
    milli: int = _WHOLE
    profile: str = ""
    start: int = 0

    def __str__(self) -> str:
        if self.profile:
            return f"{self.index}:{self.profile}@{self.start}"
        return str(self.index) if self.milli == _WHOLE else f"{self.index}:{self.milli}"


class Gpu(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One device of a node; what it does not say, the node says for all."""

    uuid: str = ""
    product: str | None = None
    memory: Count | None = None
    architecture: str | None = None
    port: Count | None = None
    mig: str | None = None
    numa: int = -1
    pcie: str = ""
    healthy: bool = True


class MigProfile(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A kind of MIG instance, as a device tells it; `extended` ones take the media extension."""

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
    geometries: dict[str, tuple[MigProfile, ...]] = {}


def print_devices(assignments: tuple[Assignment, ...]) -> str:
    """The annotation's value."""
    return ",".join(map(str, assignments))


def read_devices(text: str) -> tuple[Assignment, ...] | Unreadable:
    """What an annotation gives. Spaces around commas are allowed, nothing else is guessed."""
    assignments: list[Assignment] = []
    for part in text.split(",") if text.strip() else []:
        found = _assignment.fullmatch(part.strip())
        if found is None:
            how = "want INDEX, INDEX:MILLI or INDEX:PROFILE@START"
            return Unreadable(DEVICES, f"{part.strip()!r}: {how}")
        index, milli, profile, start = found.groups()
        if milli is not None and not 0 < int(milli) <= _WHOLE:
            return Unreadable(DEVICES, f"{part.strip()!r}: a share is 1 to {_WHOLE}")
        assignments.append(
            Assignment(int(index), 0, profile, int(start))
            if profile
            else Assignment(int(index), int(milli or _WHOLE))
        )
    return tuple(assignments)


def print_topology(topology: Topology) -> str:
    """The annotation's value, as short as can be."""
    return msgspec.json.encode(topology).decode()


def read_topology(text: str) -> Topology | Unreadable:
    """What an annotation says of a node's devices."""
    try:
        return msgspec.json.decode(text, type=Topology)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return Unreadable(TOPOLOGY, str(error))
