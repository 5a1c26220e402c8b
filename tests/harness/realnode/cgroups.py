"""Control groups of a node, of version 1: one for each controller, below those of this process."""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_REMOVAL_SECONDS = 20.0


def list_hierarchies() -> dict[str, Path]:
    """The hierarchies of version 1 by what mounts them, and this process's group in each.

    `cpu,cpuacct` is a hierarchy with two controllers, `name=systemd` one with none.
    """
    found: dict[str, Path] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers:  # version 2 has none
            found[controllers] = ROOT / controllers.removeprefix("name=") / path.lstrip("/")
    return found


def create_groups(name: str) -> list[Path]:
    """A group of that name in each hierarchy."""
    groups: list[Path] = []
    for controllers, parent in list_hierarchies().items():
        group = parent / name
        group.mkdir()
        groups.append(group)
        if "cpuset" in controllers.split(","):
            # Unset in a new group, and then nothing may run in it.
            for file in ("cpuset.cpus", "cpuset.mems"):
                (group / file).write_text((parent / file).read_text())
            (group / "cgroup.clone_children").write_text("1")
    return groups


def enter_groups(groups: Iterable[Path]) -> None:
    """Move this process into the groups."""
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def remove_groups(groups: Iterable[Path]) -> None:
    """Remove groups and those below them, once the last process has left them."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    remaining = list(groups)
    while remaining and time.monotonic() < deadline:
        for group in remaining:
            for folder, _names, _files in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        remaining = [group for group in remaining if group.exists()]
        if remaining:
            time.sleep(0.1)


def remove_abandoned_groups(prefix: str) -> None:
    """Remove the groups of supervisors that were killed: their names end in their process id."""
    for parent in list_hierarchies().values():
        for group in parent.glob(f"{prefix}*"):
            if not Path(f"/proc/{group.name.removeprefix(prefix)}").exists():
                remove_groups([group])
