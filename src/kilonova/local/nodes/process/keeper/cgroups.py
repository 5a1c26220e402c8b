"""Groups as cgroups: of version 2 where a part of the tree is ours to divide, else of version 1."""

import contextlib
import os
from collections.abc import Mapping, Sequence

from kilonova.local.nodes.process.keeper.groups import Group, Groups, MarkedGroups, kill_all
from kilonova.local.nodes.process.runtime import Consumption, Limits

_PERIOD = 100_000
_LEAST_QUOTA = 1_000
_V1 = ("memory", "cpu", "cpuacct", "pids")
_V2 = ("memory", "cpu")


class Cgroup2:
    """A group in the unified tree."""

    def __init__(self, path: str) -> None:
        self.join: Sequence[str] = (f"{path}/cgroup.procs",)
        self.env: Mapping[str, str] = {}
        self._path = path
        os.makedirs(path, exist_ok=True)

    def limit(self, limits: Limits) -> None:
        if limits.cpu_millis is not None:
            write(f"{self._path}/cpu.max", f"{quota(limits.cpu_millis)} {_PERIOD}")
        if limits.memory_bytes is not None:
            write(f"{self._path}/memory.max", str(limits.memory_bytes))
            with contextlib.suppress(OSError):  # a kernel without swap, or an old one
                write(f"{self._path}/memory.swap.max", "0")
                write(f"{self._path}/memory.oom.group", "1")

    def led_by(self, pid: int) -> None:
        """It is known by its cgroup."""

    def pids(self) -> Sequence[int]:
        return _pids(self._path)

    def kill(self) -> None:
        try:
            write(f"{self._path}/cgroup.kill", "1")
        except OSError:  # before Linux 5.14
            kill_all(self.pids())

    def out_of_memory(self) -> bool:
        return _counters(f"{self._path}/memory.events").get("oom_kill", 0) > 0

    def consumption(self) -> Consumption:
        spent = _counters(f"{self._path}/cpu.stat").get("usage_usec", 0) * 1000
        held = _number(f"{self._path}/memory.current")
        cache = _counters(f"{self._path}/memory.stat").get("inactive_file", 0)
        return Consumption(spent, max(0, held - cache))

    def remove(self) -> bool:
        return _remove(self._path)


class Cgroup1:
    """A group in the trees of several controllers, by controller."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = paths
        self.env: Mapping[str, str] = {}
        for path in paths.values():
            os.makedirs(path, exist_ok=True)
        self.join: Sequence[str] = tuple(f"{path}/cgroup.procs" for path in paths.values())

    def limit(self, limits: Limits) -> None:
        if limits.cpu_millis is not None:
            write(f"{self._paths['cpu']}/cpu.cfs_period_us", str(_PERIOD))
            write(f"{self._paths['cpu']}/cpu.cfs_quota_us", str(quota(limits.cpu_millis)))
        if limits.memory_bytes is not None:
            memory = self._paths["memory"]
            write(f"{memory}/memory.limit_in_bytes", str(limits.memory_bytes))
            with contextlib.suppress(OSError):  # a kernel that does not account for swap
                write(f"{memory}/memory.memsw.limit_in_bytes", str(limits.memory_bytes))

    def led_by(self, pid: int) -> None:
        """It is known by its cgroup."""

    def pids(self) -> Sequence[int]:
        return sorted({pid for path in self._paths.values() for pid in _pids(path)})

    def kill(self) -> None:
        with contextlib.suppress(OSError, KeyError):  # what forks faster than we kill
            write(f"{self._paths['pids']}/pids.max", "0")
        kill_all(self.pids())

    def out_of_memory(self) -> bool:
        return _counters(f"{self._paths['memory']}/memory.oom_control").get("oom_kill", 0) > 0

    def consumption(self) -> Consumption:
        spent = _number(f"{self._paths.get('cpuacct', '')}/cpuacct.usage")
        held = _number(f"{self._paths['memory']}/memory.usage_in_bytes")
        cache = _counters(f"{self._paths['memory']}/memory.stat").get("total_inactive_file", 0)
        return Consumption(spent, max(0, held - cache))

    def remove(self) -> bool:
        left = [path for path in self._paths.values() if not _remove(path)]
        return not left


class Cgroups:
    """Groups below one folder in each tree; `""` is the unified one."""

    limits = True

    def __init__(self, bases: Mapping[str, str]) -> None:
        self.bases = bases

    def group(self, container: str) -> Group:
        paths = {name: f"{base}/{container}" for name, base in self.bases.items()}
        return Cgroup2(paths[""]) if "" in paths else Cgroup1(paths)

    def leftovers(self) -> Sequence[Group]:
        names = {
            entry.name
            for base in self.bases.values()
            if os.path.isdir(base)
            for entry in os.scandir(base)
            if entry.is_dir()
        }
        return [self.group(name) for name in sorted(names)]

    def close(self) -> None:
        for base in self.bases.values():
            _remove(base)


def find(name: str) -> Groups:
    """The best that this machine allows, under a name of ours."""
    with open("/proc/self/mountinfo") as mounts, open("/proc/self/cgroup") as own:
        trees = mounted(mounts.read())
        places = own_places(own.read())
    unified = _unified(trees.get("", ""), places.get("", "/"), name)
    if unified:
        return Cgroups({"": unified})
    bases = {tree: trees[tree] + places.get(tree, "/").rstrip("/") for tree in _V1 if tree in trees}
    made = {tree: path for tree in bases if (path := _made(f"{bases[tree]}/{name}"))}
    if "cpu" in made and "memory" in made:
        return Cgroups(made)
    for path in made.values():
        _remove(path)
    return MarkedGroups()


def mounted(mountinfo: str) -> dict[str, str]:
    """Where the trees are: by controller, the unified one as `""`."""
    trees: dict[str, str] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4]
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            trees[""] = point
        elif kind == "cgroup":
            trees.update((name, point) for name in options.split(",") if name in _V1)
    return trees


def own_places(text: str) -> dict[str, str]:
    """Where a process is in each tree, from its /proc/PID/cgroup."""
    places: dict[str, str] = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        places.update((name, path) for name in names.split(","))
    return places


def quota(cpu_millis: int) -> int:
    """Microseconds of cpu for each period."""
    return max(_LEAST_QUOTA, cpu_millis * _PERIOD // 1000)


def write(file: str, text: str) -> None:
    """To a file of the kernel, in one piece."""
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _unified(tree: str, place: str, name: str) -> str:
    """A folder of ours whose children can have limits; empty if there is none.

    A cgroup that holds processes cannot hand controllers on, so that ours is rather a sibling of
    the one that this process is in, if its parent lets us.
    """
    while tree:
        base = _made(f"{tree}{place.rstrip('/')}/{name}")
        if base:
            with contextlib.suppress(OSError):
                write(f"{os.path.dirname(base)}/cgroup.subtree_control", _enable(_V2))
            with contextlib.suppress(OSError):
                write(f"{base}/cgroup.subtree_control", _enable(_V2))
                return base
            _remove(base)
        if place in ("/", ""):
            break
        place = os.path.dirname(place)
    return ""


def _enable(controllers: Sequence[str]) -> str:
    return " ".join(f"+{each}" for each in controllers)


def _made(path: str) -> str:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError:
        return ""
    return path


def _remove(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _pids(path: str) -> list[int]:
    try:
        with open(f"{path}/cgroup.procs") as file:
            return [int(line) for line in file]
    except FileNotFoundError:
        return []


def _number(file: str) -> int:
    try:
        with open(file) as opened:
            return int(opened.read())
    except OSError:
        return 0


def _counters(file: str) -> dict[str, int]:
    try:
        with open(file) as opened:
            pairs = [line.split() for line in opened]
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
