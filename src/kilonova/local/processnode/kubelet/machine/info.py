"""Properties and pressures of this machine, from /proc and /etc."""

import os
import platform
import re
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from kilonova.local.processnode.kubelet.machine.usage import read_meminfo

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MEMORY_PRESSURE_BYTES = 100 << 20
_DISK_PRESSURE_BYTES = 1 << 30
_PID_PRESSURE_COUNT = 100


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """What does not change while Kilonova runs."""

    name: str
    architecture: str
    kernel: str
    system: str
    boot_id: str
    machine_id: str
    cpus: int
    memory: int
    storage: int


@dataclass(frozen=True, slots=True)
class NodePressures:
    """Which resources of the node are running out."""

    memory: bool = False
    disk: bool = False
    pids: bool = False


def read_machine_info(data: Path) -> MachineInfo:
    """This machine, with the file system that holds `data`."""
    machine = platform.machine()
    return MachineInfo(
        name=normalize_node_name(socket.gethostname()),
        architecture=_ARCHITECTURES.get(machine, machine),
        kernel=platform.release(),
        system=_system_name(),
        boot_id=_read_line(Path("/proc/sys/kernel/random/boot_id")),
        machine_id=_read_line(Path("/etc/machine-id")),
        cpus=len(os.sched_getaffinity(0)),
        memory=read_meminfo()["MemTotal"],
        storage=shutil.disk_usage(data).total,
    )


def read_node_pressures(data: Path) -> NodePressures:
    """The current pressures."""
    most = int(_read_line(Path("/proc/sys/kernel/pid_max")) or 1 << 22)
    running = int(_read_line(Path("/proc/loadavg")).split()[3].partition("/")[2])
    return NodePressures(
        read_meminfo()["MemAvailable"] < _MEMORY_PRESSURE_BYTES,
        shutil.disk_usage(data).free < _DISK_PRESSURE_BYTES,
        most - running < _PID_PRESSURE_COUNT,
    )


def normalize_node_name(hostname: str) -> str:
    """A host name as a Node name: lower case, without characters that are invalid there."""
    name = re.sub(r"[^a-z0-9.-]+", "-", hostname.lower())
    name = re.sub(r"[-.]*\.[-.]*", ".", name).strip("-.")[:253].strip("-.")
    return name or "this-machine"


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _read_line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
