"""Shares of a device with MPS: a part of its threads, and memory. Pure.

A device admits a share if both sums stay within its capacity, each times a **burst ratio**: above 1
it is overcommitted, which is harmless for threads (clients then compete), and makes allocations
fail for memory.
"""

import math
from collections.abc import Iterable

import msgspec

MAX_CLIENTS = 48
"""Of one server, from Volta on."""
_MILLI_PER_PERCENT = 10


class MpsShare(msgspec.Struct, frozen=True):
    """What a pod has of one device."""

    threads_percent: int
    memory_mib: int
    processes: int = 1
    """How many processes of the pod use the device. The driver limits each of them, so the share is
    divided among them."""

    def __post_init__(self) -> None:
        if not 1 <= self.threads_percent <= 100:
            raise ValueError(f"threads_percent {self.threads_percent} must be between 1 and 100")
        if self.memory_mib < 1:
            raise ValueError(f"memory_mib {self.memory_mib} must be at least 1")
        if self.processes < 1:
            raise ValueError(f"processes {self.processes} must be at least 1")

    @property
    def threads_of_process(self) -> int:
        """Percent of the threads for each process."""
        return max(self.threads_percent // self.processes, 1)

    @property
    def memory_of_process(self) -> int:
        """MiB for each process."""
        return max(self.memory_mib // self.processes, 1)


class MpsCapacity(msgspec.Struct, frozen=True):
    """What a device gives to shares."""

    memory_mib: int
    threads_burst: float = 1.0
    memory_burst: float = 1.0
    max_clients: int = MAX_CLIENTS


def share_of_assignment(
    milli: int, memory_milli: int, device_memory_mib: int, processes: int = 1
) -> MpsShare:
    """The share for thousandths of a device, as in the annotation `gpu.kilonova.dev/devices`.

    Threads come in percent: they are rounded up, so that no pod gets less than it was assigned.
    """
    return MpsShare(
        min(math.ceil(milli / _MILLI_PER_PERCENT), 100),
        max(device_memory_mib * memory_milli // 1000, 1),
        processes,
    )


def admit_share(share: MpsShare, others: Iterable[MpsShare], capacity: MpsCapacity) -> str:
    """Why a share is not admitted beside the others; empty if it is."""
    shares = [*others, share]
    threads = sum(each.threads_percent for each in shares)
    memory = sum(each.memory_mib for each in shares)
    clients = sum(each.processes for each in shares)
    if threads > _tolerate(100 * capacity.threads_burst, len(shares)):
        return (
            f"threads: {threads} % would be assigned, of {100 * capacity.threads_burst:g} % "
            f"(burst ratio {capacity.threads_burst:g})"
        )
    limit = capacity.memory_mib * capacity.memory_burst
    if memory > limit:
        return (
            f"memory: {memory} MiB would be assigned, of {limit:.0f} MiB "
            f"(burst ratio {capacity.memory_burst:g})"
        )
    if clients > capacity.max_clients:
        return f"clients: {clients} processes, of {capacity.max_clients} that a server admits"
    return ""


def _tolerate(limit: float, count: int) -> float:
    """Thousandths were rounded up to percent: by less than 1 for each share."""
    return limit + count - 1


def client_environment(share: MpsShare, pipe_directory: str) -> dict[str, str]:
    """The environment of a pod's containers. The device is the only one of its server: index 0."""
    return {
        "CUDA_MPS_PIPE_DIRECTORY": pipe_directory,
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share.threads_of_process),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={share.memory_of_process}M",
    }
