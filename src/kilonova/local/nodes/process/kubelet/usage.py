"""What pods and the node use: from what was counted at two moments. Pure but for `read_machine`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kilonova.local.kubelets import ContainerUsage, NodeUsage, PodUsage
from kilonova.local.nodes.process.runtime import Consumption

PodName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """Counted at one moment; `containers` by run."""

    time: datetime
    machine: Consumption
    containers: Mapping[str, Consumption]


def usage_between(
    before: Sample, after: Sample, owners: Mapping[str, tuple[PodName, str]]
) -> NodeUsage | None:
    """What was used between two moments; `owners` says whose each run is: (pod, container).

    A run that is younger than the first moment is left out until the next time.
    """
    window = (after.time - before.time).total_seconds()
    if window <= 0:
        return None
    pods: dict[PodName, list[ContainerUsage]] = {}
    for run, now in after.containers.items():
        if run not in owners or run not in before.containers:
            continue
        pod, container = owners[run]
        cpu = _rate(before.containers[run], now, window)
        pods.setdefault(pod, []).append(ContainerUsage(container, cpu, now.memory_bytes))
    return NodeUsage(
        after.time,
        window,
        _rate(before.machine, after.machine, window),
        after.machine.memory_bytes,
        tuple(PodUsage(*pod, tuple(containers)) for pod, containers in pods.items()),
    )


def read_machine(proc: Path = Path("/proc")) -> Consumption:
    """What all of this machine has used, and holds."""
    fields = (proc / "stat").read_text().partition("\n")[0].split()[1:]
    user, nice, system, _, _, interrupts, soft, stolen = map(int, fields[:8])
    ticks = user + nice + system + interrupts + soft + stolen
    memory = memory_table(proc)
    return Consumption(
        ticks * 10**9 // os.sysconf("SC_CLK_TCK"),
        memory["MemTotal"] - memory["MemAvailable"],
    )


def memory_table(proc: Path = Path("/proc")) -> dict[str, int]:
    """The memory of this machine, in bytes by name."""
    rows = (line.split() for line in (proc / "meminfo").read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}


def _rate(before: Consumption, now: Consumption, window: float) -> int:
    return max(0, round((now.cpu_nanoseconds - before.cpu_nanoseconds) / window))
