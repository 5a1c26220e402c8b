"""The GPUs of a node, how they are connected, and the share of them that a pod gets.

A **layout** is everything about a node's GPUs that does not change as pods are added and removed.
Equal machines have equal layouts (UUIDs are not part of them, see `identity`), so what is computed
for a layout is computed once per machine type: see `device_sets`. Devices are identified by their
index, which is their position in the layout; a set of devices is an int with a bit for each.

Bandwidths are GB/s in both directions together, as NVIDIA states them. Behind an NVSwitch a device
reaches all others with the bandwidth of its **port**; devices that are connected directly have
**links**, each between two.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from kilonova.catalog.mig import MASK_COUNT, MigGeometry
from kilonova.scheduler.core.gpu.device_sets import DeviceSets
from kilonova.scheduler.core.gpu.mig import fit_counts
from kilonova.scheduler.core.model.requests import GpuRequest

MILLI_PER_GPU = 1000
"""Milli of one device."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device. `memory` is in MiB; 0, empty and -1 mean unknown."""

    index: int
    memory: int = 0
    model: str = ""
    architecture: str = ""
    numa: int = -1
    pcie: str = ""
    """Name of its PCIe switch, equal for devices behind the same switch."""
    port: int = 0
    mig: MigGeometry | None = None
    """The MIG profiles and placements that the device supports."""
    healthy: bool = True
    withheld: bool = False
    """Only MIG instances of it are assigned: it is to be partitioned."""

    @property
    def is_offered(self) -> bool:
        """Whether it may be assigned as a whole or in shares."""
        return self.healthy and not self.withheld


@dataclass(frozen=True, slots=True)
class GpuShare:
    """What a pod has of one device: all of it, some milli, or a MIG instance.

    For an instance, `mask` is the slices it occupies. `memory` is the milli of the memory, where
    they differ from those of the compute capacity.
    """

    index: int
    milli: int = MILLI_PER_GPU
    profile: str = ""
    start: int = 0
    mask: int = 0
    memory: int | None = None

    @property
    def memory_milli(self) -> int:
        """The milli of the device's memory."""
        return self.milli if self.memory is None else self.memory

    @property
    def excess(self) -> int:
        """The milli of memory beyond those of compute capacity; may be negative."""
        return 0 if self.memory is None else self.memory - self.milli


def build_share(index: int, milli: int, memory: int) -> GpuShare:
    """A share with its milli of compute capacity and of memory."""
    return GpuShare(index, milli, memory=None if memory == milli else memory)


@dataclass(frozen=True, slots=True)
class GpuSelection:
    """The shares that a pod gets, by device, and how well they meet its preference: 0 to 100."""

    shares: tuple[GpuShare, ...]
    score: float


@dataclass(frozen=True)
class GpuLayout:
    """The devices of a node, by index from 0, and the direct links between them.

    `ValueError` where they contradict each other.
    """

    gpus: tuple[Gpu, ...] = ()
    links: tuple[tuple[int, int, int], ...] = ()
    """(device, device, GB/s), the lower index first, each pair once."""

    def __post_init__(self) -> None:
        for position, gpu in enumerate(self.gpus):
            if gpu.index != position:
                raise ValueError(f"device {gpu.index} is at position {position}")
        for first, second, speed in self.links:
            if not 0 <= first < second < len(self.gpus):
                raise ValueError(f"link {first}-{second}: not two devices, the lower one first")
            if speed <= 0:
                raise ValueError(f"link {first}-{second}: {speed} GB/s")
        if len({link[:2] for link in self.links}) < len(self.links):
            raise ValueError("two links join the same devices")

    def __hash__(self) -> int:
        return self._hash

    @staticmethod
    def of_unknown(count: int) -> "GpuLayout":
        """A number of devices of which nothing else is known."""
        return _unknown_layout(count)

    @cached_property
    def device_sets(self) -> DeviceSets:
        """Scores of every set of devices."""
        return DeviceSets(
            ports=tuple(gpu.port for gpu in self.gpus),
            links=self.links,
            numa=tuple(gpu.numa for gpu in self.gpus),
            pcie=tuple(gpu.pcie for gpu in self.gpus),
        )

    @cached_property
    def selections(self) -> dict[tuple[GpuRequest, int, int], GpuSelection | None]:
        """Cache of earlier selections of whole devices."""
        return {}

    def eligible_devices(self, request: GpuRequest) -> int:
        """The devices that meet the requirements of a request, whether free or not: healthy ones,
        and for MIG instances also those that are withheld from other requests."""
        wanted = (request.memory, request.models, request.architecture, request.profile)
        found = self._eligible.get(wanted)
        if found is None:
            found = sum(1 << gpu.index for gpu in self.gpus if _is_eligible(gpu, request))
            self._eligible[wanted] = found
        return found

    def has_profile(self, profile: str) -> bool:
        """Whether any of the devices supports a MIG profile."""
        return any(gpu.mig is not None and gpu.mig.profile(profile) for gpu in self.gpus)

    def instance_counts(self, profile: str) -> NDArray[np.int64]:
        """How many instances of a MIG profile still fit: a row per device, a column per mask."""
        found = self._instances.get(profile)
        if found is None:
            found = self._instances[profile] = np.zeros((len(self.gpus), MASK_COUNT), np.int64)
            for gpu in self.gpus:
                if gpu.healthy and gpu.mig is not None:
                    found[gpu.index] = fit_counts(gpu.mig, profile)
        return found

    @cached_property
    def _eligible(self) -> dict[tuple[object, ...], int]:
        return {}

    @cached_property
    def _instances(self) -> dict[str, NDArray[np.int64]]:
        return {}

    @cached_property
    def _hash(self) -> int:
        return hash((self.gpus, self.links))


def model_matches(wanted: str, model: str) -> bool:
    """Whether a product is of a model: `H100` matches `NVIDIA-H100-80GB-HBM3`, not `GH100`."""
    words, inside = _split_words(model), _split_words(wanted)
    return any(
        words[start : start + len(inside)] == inside
        for start in range(len(words) - len(inside) + 1)
    )


def requested_share(gpu: Gpu, request: GpuRequest) -> tuple[int, int]:
    """The milli of a device's compute capacity, and of its memory, that a request for a fraction
    takes; more than `MILLI_PER_GPU` where it never fits."""
    mebibytes = request.share_memory or (0 if request.milli else request.memory)
    if not mebibytes and request.milli:
        return request.milli, request.milli
    memory = max(1, -(-mebibytes * MILLI_PER_GPU // gpu.memory)) if gpu.memory else _NEVER_FITS
    return request.milli or memory, memory


def idle_devices(free: NDArray[np.int16], masks: NDArray[np.uint16]) -> NDArray[np.int64]:
    """The sets of idle devices, from rows of free milli and of occupied MIG slices."""
    idle = (free == MILLI_PER_GPU) & (masks == 0)
    return idle[:, :_BITS] @ (1 << np.arange(min(idle.shape[1], _BITS), dtype=np.int64))


@lru_cache(maxsize=1024)
def normalize_architecture(name: str) -> str:
    """An architecture in its normal form: NVML reports `Ada`, node labels `ada-lovelace`."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    return _ARCHITECTURE_ALIASES.get(plain, plain)


_ARCHITECTURE_ALIASES = {"adalovelace": "ada"}


def _is_eligible(gpu: Gpu, request: GpuRequest) -> bool:
    return (
        gpu.healthy
        and not (gpu.withheld and not request.profile)
        and gpu.memory >= request.memory
        and (not request.models or any(model_matches(model, gpu.model) for model in request.models))
        and normalize_architecture(request.architecture)
        in ("", normalize_architecture(gpu.architecture))
        and (
            not request.profile
            or (gpu.mig is not None and gpu.mig.profile(request.profile) is not None)
        )
    )


@lru_cache(maxsize=1024)
def _split_words(product: str) -> list[str]:
    return re.split(r"[-\s_]+", product.lower())


@lru_cache(maxsize=256)
def _unknown_layout(count: int) -> GpuLayout:
    return GpuLayout(tuple(Gpu(index) for index in range(count)))


_NEVER_FITS = MILLI_PER_GPU + 1
_BITS = 62
"""Devices beyond the bits of an int64 are ignored."""
