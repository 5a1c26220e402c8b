"""Process groups as cgroups: v2 where a subtree is delegated to us, else v1."""

import contextlib
import os
from collections.abc import Mapping, Sequence

from kilonova.local.processnode.cri.api import ContainerStats, Limits
from kilonova.local.processnode.shim.isolation.process_groups import (
    EnvironmentGroupFactory,
    ProcessGroup,
    ProcessGroupFactory,
    kill_processes,
)

_CPU_PERIOD = 100_000
_MIN_CPU_QUOTA = 1_000
_V1_CONTROLLERS = ("memory", "cpu", "cpuacct", "pids")
_V2_CONTROLLERS = ("memory", "cpu")


class CgroupV2:
    """A group in the unified (v2) hierarchy."""

    def __init__(self, path: str) -> None:
        self.procs_files: Sequence[str] = (f"{path}/cgroup.procs",)
        self.env: Mapping[str, str] = {}
        self._path = path
        os.makedirs(path, exist_ok=True)

    def set_limits(self, limits: Limits) -> None:
        if limits.cpu_millis is not None:
            write_kernel_file(
                f"{self._path}/cpu.max", f"{compute_cpu_quota(limits.cpu_millis)} {_CPU_PERIOD}"
            )
        if limits.memory_bytes is not None:
            write_kernel_file(f"{self._path}/memory.max", str(limits.memory_bytes))
            with contextlib.suppress(OSError):  # a kernel without swap accounting
                write_kernel_file(f"{self._path}/memory.swap.max", "0")
                write_kernel_file(f"{self._path}/memory.oom.group", "1")

    def set_leader(self, pid: int) -> None:
        """No effect: the cgroup tracks its processes."""

    def pids(self) -> Sequence[int]:
        return _read_pids(self._path)

    def kill(self) -> None:
        try:
            write_kernel_file(f"{self._path}/cgroup.kill", "1")
        except OSError:  # before Linux 5.14
            kill_processes(self.pids())

    def is_out_of_memory(self) -> bool:
        return _read_counters(f"{self._path}/memory.events").get("oom_kill", 0) > 0

    def read_stats(self) -> ContainerStats:
        cpu_nanoseconds = _read_counters(f"{self._path}/cpu.stat").get("usage_usec", 0) * 1000
        memory_bytes = _read_number(f"{self._path}/memory.current")
        cache = _read_counters(f"{self._path}/memory.stat").get("inactive_file", 0)
        return ContainerStats(cpu_nanoseconds, max(0, memory_bytes - cache))

    def remove(self) -> bool:
        return _remove_directory(self._path)


class CgroupV1:
    """A group in the v1 hierarchies, by controller."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = paths
        self.env: Mapping[str, str] = {}
        for path in paths.values():
            os.makedirs(path, exist_ok=True)
        self.procs_files: Sequence[str] = tuple(f"{path}/cgroup.procs" for path in paths.values())

    def set_limits(self, limits: Limits) -> None:
        if limits.cpu_millis is not None:
            write_kernel_file(f"{self._paths['cpu']}/cpu.cfs_period_us", str(_CPU_PERIOD))
            write_kernel_file(
                f"{self._paths['cpu']}/cpu.cfs_quota_us", str(compute_cpu_quota(limits.cpu_millis))
            )
        if limits.memory_bytes is not None:
            memory = self._paths["memory"]
            write_kernel_file(f"{memory}/memory.limit_in_bytes", str(limits.memory_bytes))
            with contextlib.suppress(OSError):  # a kernel without swap accounting
                write_kernel_file(f"{memory}/memory.memsw.limit_in_bytes", str(limits.memory_bytes))

    def set_leader(self, pid: int) -> None:
        """No effect: the cgroup tracks its processes."""

    def pids(self) -> Sequence[int]:
        return sorted({pid for path in self._paths.values() for pid in _read_pids(path)})

    def kill(self) -> None:
        # processes that fork faster than they are killed
        with contextlib.suppress(OSError, KeyError):
            write_kernel_file(f"{self._paths['pids']}/pids.max", "0")
        kill_processes(self.pids())

    def is_out_of_memory(self) -> bool:
        return _read_counters(f"{self._paths['memory']}/memory.oom_control").get("oom_kill", 0) > 0

    def read_stats(self) -> ContainerStats:
        cpu_nanoseconds = _read_number(f"{self._paths.get('cpuacct', '')}/cpuacct.usage")
        memory_bytes = _read_number(f"{self._paths['memory']}/memory.usage_in_bytes")
        cache = _read_counters(f"{self._paths['memory']}/memory.stat").get("total_inactive_file", 0)
        return ContainerStats(cpu_nanoseconds, max(0, memory_bytes - cache))

    def remove(self) -> bool:
        left = [path for path in self._paths.values() if not _remove_directory(path)]
        return not left


class CgroupFactory:
    """Groups below one directory in each hierarchy; `""` is the unified one."""

    enforces_limits = True

    def __init__(self, bases: Mapping[str, str]) -> None:
        self.bases = bases

    def get_group(self, container: str) -> ProcessGroup:
        paths = {name: f"{base}/{container}" for name, base in self.bases.items()}
        return CgroupV2(paths[""]) if "" in paths else CgroupV1(paths)

    def find_leftovers(self) -> Sequence[ProcessGroup]:
        names = {
            entry.name
            for base in self.bases.values()
            if os.path.isdir(base)
            for entry in os.scandir(base)
            if entry.is_dir()
        }
        return [self.get_group(name) for name in sorted(names)]

    def close(self) -> None:
        for base in self.bases.values():
            _remove_directory(base)


def detect_process_groups(name: str) -> ProcessGroupFactory:
    """The best process groups that this machine allows, below a cgroup of that name."""
    with open("/proc/self/mountinfo") as mounts, open("/proc/self/cgroup") as own:
        trees = parse_cgroup_mounts(mounts.read())
        cgroup_paths = parse_cgroup_paths(own.read())
    unified = _create_unified_base(trees.get("", ""), cgroup_paths.get("", "/"), name)
    if unified:
        return CgroupFactory({"": unified})
    bases = {
        tree: trees[tree] + cgroup_paths.get(tree, "/").rstrip("/")
        for tree in _V1_CONTROLLERS
        if tree in trees
    }
    made = {tree: path for tree in bases if (path := _create_directory(f"{bases[tree]}/{name}"))}
    if "cpu" in made and "memory" in made:
        return CgroupFactory(made)
    for path in made.values():
        _remove_directory(path)
    return EnvironmentGroupFactory()


def parse_cgroup_mounts(mountinfo: str) -> dict[str, str]:
    """Mount points of cgroup hierarchies: by controller, the unified one as `""`."""
    trees: dict[str, str] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4]
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            trees[""] = point
        elif kind == "cgroup":
            trees.update((name, point) for name in options.split(",") if name in _V1_CONTROLLERS)
    return trees


def parse_cgroup_paths(text: str) -> dict[str, str]:
    """The cgroups of a process in each hierarchy, from /proc/PID/cgroup."""
    cgroup_paths: dict[str, str] = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        cgroup_paths.update((name, path) for name in names.split(","))
    return cgroup_paths


def compute_cpu_quota(cpu_millis: int) -> int:
    """CPU quota in microseconds per period."""
    return max(_MIN_CPU_QUOTA, cpu_millis * _CPU_PERIOD // 1000)


def write_kernel_file(file: str, text: str) -> None:
    """Write to a kernel file in a single write."""
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _create_unified_base(tree: str, cgroup_path: str, name: str) -> str:
    """A cgroup of ours whose children can have limits; empty if there is none.

    A cgroup that contains processes cannot delegate controllers, so ours is preferably a sibling of
    the one that this process is in, if its parent is delegated to us.
    """
    while tree:
        base = _create_directory(f"{tree}{cgroup_path.rstrip('/')}/{name}")
        if base:
            with contextlib.suppress(OSError):
                write_kernel_file(
                    f"{os.path.dirname(base)}/cgroup.subtree_control",
                    _enable_controllers(_V2_CONTROLLERS),
                )
            with contextlib.suppress(OSError):
                write_kernel_file(
                    f"{base}/cgroup.subtree_control", _enable_controllers(_V2_CONTROLLERS)
                )
                return base
            _remove_directory(base)
        if cgroup_path in ("/", ""):
            break
        cgroup_path = os.path.dirname(cgroup_path)
    return ""


def _enable_controllers(controllers: Sequence[str]) -> str:
    return " ".join(f"+{each}" for each in controllers)


def _create_directory(path: str) -> str:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError:
        return ""
    return path


def _remove_directory(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read_pids(path: str) -> list[int]:
    try:
        with open(f"{path}/cgroup.procs") as file:
            return [int(line) for line in file]
    except FileNotFoundError:
        return []


def _read_number(file: str) -> int:
    try:
        with open(file) as opened:
            return int(opened.read())
    except OSError:
        return 0


def _read_counters(file: str) -> dict[str, int]:
    try:
        with open(file) as opened:
            pairs = [line.split() for line in opened]
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
