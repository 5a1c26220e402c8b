"""What pods and the node use: from what was counted at two moments. Pure but for `read_machine`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kilonova.local.kubelets import ContainerUsage, NodeUsage, PodUsage
from kilonova.local.nodes.process.runtime import Consumption

_LEAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a run is, and since when it goes, in seconds since 1970."""

    namespace: str
    pod: str
    container: str
    started: float


_NOTHING = Consumption(0, 0)


@dataclass(frozen=True, slots=True)
class Sample:
    """Counted at one moment; `containers` by run."""

    time: datetime
    machine: Consumption
    containers: Mapping[str, Consumption]


def usage_between(before: Sample, after: Sample, owners: Mapping[str, Owner]) -> NodeUsage | None:
    """What was used between two moments, by the owners of runs.

    Of a run that is younger than the first moment it is what it used since it began.
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
            last, seconds = _NOTHING, after.time.timestamp() - owner.started
        if seconds < _LEAST_SECONDS:
            continue
        used = ContainerUsage(owner.container, _rate(last, now, seconds), now.memory_bytes)
        pods.setdefault((owner.namespace, owner.pod), []).append(used)
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
