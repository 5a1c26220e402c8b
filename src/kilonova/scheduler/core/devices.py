"""The GPUs of a node, how they are joined, and what a pod is given of them.

A **layout** is everything about a node's GPUs that never changes while pods come and go. Nodes of
one kind have equal layouts (a device's id does not count), so what is worked out about a layout
is worked out once per kind: see `subsets`. Devices are known by their index, which is their
position in the layout; a set of devices is an int with a bit for each.

Bandwidths are GB/s in both directions together, as NVIDIA states them. Behind an NVSwitch a device
reaches any others with all it has, but never with more than its **port**; devices that are joined
directly have **links**, each between two.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.asks import GpuAsk
from kilonova.scheduler.core.mig import MASKS, Geometry
from kilonova.scheduler.core.subsets import Subsets

WHOLE = 1000
"""A device is so many milli."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device. `memory` is in MiB; 0, empty and -1 say that something is not known."""

    index: int
    memory: int = 0
    model: str = ""
    architecture: str = ""
    numa: int = -1
    pcie: str = ""
    """What its PCIe switch is called; devices behind one switch name the same."""
    port: int = 0
    mig: Geometry | None = None
    """Where MIG instances may be made on it."""
    healthy: bool = True
    uuid: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Share:
    """What a pod is given of one device: all of it, some milli, or a MIG instance.

    Of an instance `mask` says what it occupies.
    """

    index: int
    milli: int = WHOLE
    profile: str = ""
    start: int = 0
    mask: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """What a pod is given, by device, and how well that meets its wish: 0 to 100."""

    shares: tuple[Share, ...]
    score: float


@dataclass(frozen=True)
class Layout:
    """The devices of a node, by index from 0, and the direct links between them.

    `ValueError` where they contradict each other.
    """

    gpus: tuple[Gpu, ...] = ()
    links: tuple[tuple[int, int, int], ...] = ()
    """(device, device, GB/s), the lower index first, each pair once."""

    def __post_init__(self) -> None:
        for position, gpu in enumerate(self.gpus):
            if gpu.index != position:
                raise ValueError(f"device {gpu.index} stands at position {position}")
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
    def of_unknown(count: int) -> "Layout":
        """So many devices of which nothing is known."""
        return _unknown(count)

    @cached_property
    def subsets(self) -> Subsets:
        """What is known of every set of devices."""
        return Subsets(
            ports=tuple(gpu.port for gpu in self.gpus),
            links=self.links,
            numa=tuple(gpu.numa for gpu in self.gpus),
            pcie=tuple(gpu.pcie for gpu in self.gpus),
        )

    @cached_property
    def chosen(self) -> dict[tuple[GpuAsk, int, int], Choice | None]:
        """Choices of whole devices that were made before, by what they depend on."""
        return {}

    def eligible(self, ask: GpuAsk) -> int:
        """The healthy devices that are as an ask wants them, whether free or not."""
        wanted = (ask.memory, ask.models, ask.architecture, ask.profile)
        found = self._eligible.get(wanted)
        if found is None:
            found = sum(1 << gpu.index for gpu in self.gpus if _suits(gpu, ask))
            self._eligible[wanted] = found
        return found

    def has_profile(self, profile: str) -> bool:
        """Whether instances of a MIG profile may be made on any of the devices."""
        return any(gpu.mig is not None and gpu.mig.profile(profile) for gpu in self.gpus)

    def instances(self, profile: str) -> NDArray[np.int64]:
        """How many instances of a MIG profile still fit: a row per device, a column per mask."""
        found = self._instances.get(profile)
        if found is None:
            found = self._instances[profile] = np.zeros((len(self.gpus), MASKS), np.int64)
            for gpu in self.gpus:
                if gpu.healthy and gpu.mig is not None:
                    found[gpu.index] = gpu.mig.fits(profile)
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
    """Whether a product is of a model: `H100` is in `NVIDIA-H100-80GB-HBM3`, not in `GH100`."""
    words, inside = _words(model), _words(wanted)
    return any(
        words[start : start + len(inside)] == inside
        for start in range(len(words) - len(inside) + 1)
    )


def share_of(gpu: Gpu, ask: GpuAsk) -> int:
    """How many milli of a device an ask for a share is; more than `WHOLE` where it never fits."""
    if ask.milli:
        return ask.milli
    if not gpu.memory:
        return WHOLE + 1
    return max(1, -(-ask.memory * WHOLE // gpu.memory))


def idle_devices(free: NDArray[np.int16], masks: NDArray[np.uint16]) -> NDArray[np.int64]:
    """The sets of devices that nobody uses, for rows of milli free and of occupied slices."""
    idle = (free == WHOLE) & (masks == 0)
    return idle[:, :_BITS] @ (1 << np.arange(min(idle.shape[1], _BITS), dtype=np.int64))


@lru_cache(maxsize=1024)
def architecture_of(name: str) -> str:
    """An architecture as it is compared: NVML says `Ada`, labels of nodes `ada-lovelace`."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    return _ALSO_CALLED.get(plain, plain)


_ALSO_CALLED = {"adalovelace": "ada"}


def _suits(gpu: Gpu, ask: GpuAsk) -> bool:
    return (
        gpu.healthy
        and gpu.memory >= ask.memory
        and (not ask.models or any(model_matches(model, gpu.model) for model in ask.models))
        and architecture_of(ask.architecture) in ("", architecture_of(gpu.architecture))
        and (not ask.profile or (gpu.mig is not None and gpu.mig.profile(ask.profile) is not None))
    )


@lru_cache(maxsize=1024)
def _words(product: str) -> list[str]:
    return re.split(r"[-\s_]+", product.lower())


@lru_cache(maxsize=256)
def _unknown(count: int) -> Layout:
    return Layout(tuple(Gpu(index) for index in range(count)))


_BITS = 62
"""More devices than an int64 has bits for are looked at only as far as it reaches."""
