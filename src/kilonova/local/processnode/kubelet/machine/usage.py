"""CPU and memory usage of pods and the node, from two samples. Pure but for `read_*`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kilonova.local.kubelet_api import ContainerUsage, NodeUsage, PodUsage
from kilonova.local.processnode.cri.api import ContainerStats

_MIN_WINDOW_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RunOwner:
    """The container of a run, and its start in seconds since the epoch."""

    namespace: str
    pod: str
    container: str
    started: float


_NO_CONSUMPTION = ContainerStats(0, 0)


@dataclass(frozen=True, slots=True)
class UsageSample:
    """Counters at one moment; `containers` by run."""

    time: datetime
    machine: ContainerStats
    containers: Mapping[str, ContainerStats]


def compute_usage(
    before: UsageSample, after: UsageSample, owners: Mapping[str, RunOwner]
) -> NodeUsage | None:
    """The usage between two samples, by the owners of runs.

    For a run that started after the first sample it is the usage since its start.
    """
    window = (after.time - before.time).total_seconds()
    if window <= 0:
        return None
    pods: dict[tuple[str, str], list[ContainerUsage]] = {}
    for run, now in after.containers.items():
        owner = owners.get(run)
        if owner is None:
            continue
        last, seconds = before.containers.get(run), window
        if last is None:
            last, seconds = _NO_CONSUMPTION, after.time.timestamp() - owner.started
        if seconds < _MIN_WINDOW_SECONDS:
            continue
        used = ContainerUsage(owner.container, _compute_rate(last, now, seconds), now.memory_bytes)
        pods.setdefault((owner.namespace, owner.pod), []).append(used)
    return NodeUsage(
        after.time,
        window,
        _compute_rate(before.machine, after.machine, window),
        after.machine.memory_bytes,
        tuple(PodUsage(*pod, tuple(containers)) for pod, containers in pods.items()),
    )


def read_machine_consumption(proc: Path = Path("/proc")) -> ContainerStats:
    """CPU time and memory used by the whole machine."""
    fields = (proc / "stat").read_text().partition("\n")[0].split()[1:]
    user, nice, system, _, _, interrupts, soft, stolen = map(int, fields[:8])
    ticks = user + nice + system + interrupts + soft + stolen
    memory = read_meminfo(proc)
    return ContainerStats(
        ticks * 10**9 // os.sysconf("SC_CLK_TCK"),
        memory["MemTotal"] - memory["MemAvailable"],
    )


def read_meminfo(proc: Path = Path("/proc")) -> dict[str, int]:
    """/proc/meminfo in bytes, by name."""
    rows = (line.split() for line in (proc / "meminfo").read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}


def _compute_rate(before: ContainerStats, now: ContainerStats, window: float) -> int:
    return max(0, round((now.cpu_nanoseconds - before.cpu_nanoseconds) / window))
