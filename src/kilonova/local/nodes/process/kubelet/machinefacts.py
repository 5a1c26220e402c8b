"""This machine as a Node: what it is and has, and how it is doing. Reads /proc and /etc."""

import os
import platform
import re
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kilonova.local.nodes.process.kubelet.usage import memory_table

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_LEAST_MEMORY = 100 << 20
_LEAST_DISK = 1 << 30
_LEAST_PIDS = 100


@dataclass(frozen=True, slots=True)
class MachineFacts:
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
    gpus: int


@dataclass(frozen=True, slots=True)
class Pressures:
    """Of what there is too little left."""

    memory: bool = False
    disk: bool = False
    pids: bool = False


def read_facts(data: Path, gpus: Sequence[int]) -> MachineFacts:
    """This machine, with the disk that `data` is on."""
    machine = platform.machine()
    return MachineFacts(
        name=node_name(socket.gethostname()),
        architecture=_ARCHITECTURES.get(machine, machine),
        kernel=platform.release(),
        system=_system_name(),
        boot_id=_line(Path("/proc/sys/kernel/random/boot_id")),
        machine_id=_line(Path("/etc/machine-id")),
        cpus=len(os.sched_getaffinity(0)),
        memory=memory_table()["MemTotal"],
        storage=shutil.disk_usage(data).total,
        gpus=len(gpus),
    )


def read_pressures(data: Path) -> Pressures:
    """How this machine is doing now."""
    most = int(_line(Path("/proc/sys/kernel/pid_max")) or 1 << 22)
    running = int(_line(Path("/proc/loadavg")).split()[3].partition("/")[2])
    return Pressures(
        memory_table()["MemAvailable"] < _LEAST_MEMORY,
        shutil.disk_usage(data).free < _LEAST_DISK,
        most - running < _LEAST_PIDS,
    )


def node_name(hostname: str) -> str:
    """A host name as the name of a Node: lower case, and no characters that may not be in one."""
    name = re.sub(r"[^a-z0-9.-]+", "-", hostname.lower())
    name = re.sub(r"[-.]*\.[-.]*", ".", name).strip("-.")[:253].strip("-.")
    return name or "this-machine"


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
