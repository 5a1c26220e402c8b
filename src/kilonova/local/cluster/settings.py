"""Settings of an embedded cluster."""

from dataclasses import dataclass
from pathlib import Path

from kilonova.api.gpu.annotations import Gpu
from kilonova.local.apiserver.kinds.core.service_allocator import DEFAULT_RANGES, ServiceRanges
from kilonova.local.apiserver.storage import Durability
from kilonova.local.simnodes import NO_NODES, Fleet


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings of a cluster. Without `data` it is in memory only; without `port` it has no
    socket."""

    name: str = "kilonova"
    """The name by which people know the cluster."""
    data: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = 0
    durability: Durability = Durability.FULL
    fleet: Fleet = NO_NODES
    token_file: Path | None = None
    controllers: str = "*"
    """The built-in controllers to run, as a list of the form `*,-name`; empty: none, and no
    nodes."""
    process_node: bool = False
    """Whether this machine is a node, whose pods run as processes."""
    services: ServiceRanges = DEFAULT_RANGES
    """The addresses and node ports of Services. The process node serves only the default ones."""
    gpus: tuple[Gpu, ...] | None = None
    """The GPUs of that node, in the order of their index; None: those of this machine."""
    images: Path | None = None
    """A file that specifies how images are run on that node, before the table that is shipped."""
    allowed_host_paths: tuple[Path, ...] = ()
    """The paths of this machine that its pods may mount as hostPath volumes."""
