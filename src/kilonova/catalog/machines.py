"""Machine types: what clouds call an instance type, with or without GPUs."""

from typing import Annotated

import msgspec
from msgspec import Meta


class MachineType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine type. Nodes name theirs in the label `node.kubernetes.io/instance-type`."""

    name: str
    cpu: Annotated[int, Meta(gt=0)]
    """Virtual CPUs."""
    memory: Annotated[float, Meta(gt=0)]
    """GiB."""
    provider: str = ""
    network: Annotated[float, Meta(ge=0)] = 0
    """Gbit/s; 0 where it is unknown."""
    gpu: str = ""
    """The name of its GPU model; empty: it has no GPUs."""
    gpus: Annotated[int, Meta(ge=0, le=256)] = 0
    """The number of its GPUs."""
