"""Which container has which GPUs: exact indices, and no index for two at a time."""

from collections.abc import Sequence
from pathlib import Path

from kilonova.local.nodes.process.kubelet.fields import amount_of
from kilonova.local.nodes.process.kubelet.pods import Container

GPU_RESOURCE = "nvidia.com/gpu"


class NotEnough(Exception):
    """There are not so many free GPUs."""

    def __init__(self, requested: int, used: int, capacity: int) -> None:
        super().__init__(
            f"Node didn't have enough resource: {GPU_RESOURCE}, requested: {requested}, "
            f"used: {used}, capacity: {capacity}"
        )


class Devices:
    """The GPUs of this machine, by index, and who holds them."""

    def __init__(self, indices: Sequence[int]) -> None:
        self._indices = tuple(indices)
        self._held: dict[tuple[str, str], tuple[int, ...]] = {}

    @property
    def count(self) -> int:
        return len(self._indices)

    def keep(self, uid: str, container: str, indices: Sequence[int]) -> None:
        """A container has these since an earlier time."""
        self._held[uid, container] = tuple(indices)

    def take(self, uid: str, container: str, count: int) -> tuple[int, ...]:
        """The container's GPUs, the first free ones if it has none yet; else `NotEnough`."""
        known = self._held.get((uid, container))
        if known is not None:
            return known
        taken = {index for held in self._held.values() for index in held}
        free = [index for index in self._indices if index not in taken]
        if len(free) < count:
            raise NotEnough(count, len(taken), len(self._indices))
        chosen = self._held[uid, container] = tuple(free[:count])
        return chosen

    def free(self, uid: str, container: str | None = None) -> None:
        """A container, or all of a pod, needs its GPUs no longer."""
        for key in [key for key in self._held if key[0] == uid and container in (None, key[1])]:
            del self._held[key]

    def held_by(self, uid: str) -> dict[str, tuple[int, ...]]:
        """By container, what a pod holds."""
        return {key[1]: held for key, held in self._held.items() if key[0] == uid and held}

    def variables(self, indices: Sequence[int]) -> dict[str, str]:
        """What tells CUDA which GPUs to use; where there are GPUs, also that it has none."""
        if not self._indices:
            return {}
        named = ",".join(map(str, indices))
        return {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": named,
            "NVIDIA_VISIBLE_DEVICES": named or "void",
        }


def gpus_wanted(container: Container) -> int:
    """How many GPUs a container asks for."""
    resources = container.resources
    wanted = resources.limits.get(GPU_RESOURCE, resources.requests.get(GPU_RESOURCE, 0))
    return amount_of(wanted).value


def installed_gpus(proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The indices of this machine's GPUs, in the order of the PCI bus."""
    try:
        return tuple(range(len(list((proc / "driver" / "nvidia" / "gpus").iterdir()))))
    except OSError:
        return ()
