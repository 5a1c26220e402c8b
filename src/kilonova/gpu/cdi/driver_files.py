"""The files of NVIDIA's driver on the host that containers need: libraries, commands, sockets.

They have the version of the kernel module, so images cannot have them. Libraries are found in the
cache of the dynamic linker and in known folders. In a container the linker has a cache of its own:
where NVIDIA's command to update it is installed, libraries have the paths of the host; elsewhere
they appear in both folders that linkers search without a cache, Debian's and Red Hat's.
"""

import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from kilonova.gpu.cdi.device_nodes import DeviceNodes
from kilonova.gpu.cdi.spec import Hook, Mount

LIBRARIES = (
    "libcuda",
    "libcudadebugger",
    "libnvcuvid",
    "libnvidia-allocator",
    "libnvidia-cfg",
    "libnvidia-encode",
    "libnvidia-gpucomp",
    "libnvidia-ml",
    "libnvidia-nvvm",
    "libnvidia-opencl",
    "libnvidia-opticalflow",
    "libnvidia-pkcs11",
    "libnvidia-pkcs11-openssl3",
    "libnvidia-ptxjitcompiler",
    "libnvidia-sandboxutils",
)
COMMANDS = (
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-debugdump",
    "nvidia-smi",
)
SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
LIBRARY_FOLDERS = (
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/home/kubernetes/bin/nvidia/lib64",
)
SEARCHED_FOLDERS = (f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64")
"""Where dynamic linkers look without a cache: on Debian and its like, on Red Hat and its like."""
COMMAND_FOLDERS = ("/usr/bin", "/usr/local/nvidia/bin", "/home/kubernetes/bin/nvidia/bin")
CACHE_UPDATERS = ("/usr/bin/nvidia-cdi-hook", "/usr/local/nvidia/toolkit/nvidia-cdi-hook")
"""NVIDIA's command that adds folders to the linker's cache of a container."""
_SOCKET_OPTIONS = ("ro", "nosuid", "nodev", "bind", "noexec")
_LIBRARY = re.compile(r"(?P<name>lib[a-zA-Z0-9-]+)\.so(\.[0-9.]+)?", re.ASCII)
_CACHE_LINE = re.compile(r"=>\s*(/\S+)\s*$")


@dataclass(frozen=True)
class HostDriver:
    """What containers get of the host's driver, whatever devices they have."""

    nodes: DeviceNodes | None = None
    """None where there is no driver, or the devices are simulated: containers get variables
    alone."""
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = field(default=())


def find_driver(
    root: Path | None = None,
    list_libraries: Callable[[Path], str] | None = None,
    procfs: Path = Path("/proc"),
) -> HostDriver:
    """The driver on the host, whose files this process sees below `root` (`find_host_root`).

    Blocks for some milliseconds.
    """
    root = find_host_root() if root is None else root
    nodes = DeviceNodes(root, procfs)
    if not nodes.control():
        return HostDriver()
    listed = (list_libraries or list_cached_libraries)(root)
    libraries = [*parse_linker_cache(listed), *_files_in(root, LIBRARY_FOLDERS)]
    chosen = list(select_libraries(libraries))
    # A link may lead to an absolute path, which is another one here.
    paths = [each for each in chosen if os.path.lexists(_below(root, each))]
    folders = dict.fromkeys(str(PurePosixPath(path).parent) for path in paths)
    hooks = tuple(_cache_hooks(root, folders))
    mounts = [
        *(mount for path in paths for mount in _mount_library(path, has_cache=bool(hooks))),
        *(Mount(path, path) for path in _find_commands(root)),
        *(Mount(p, p, _SOCKET_OPTIONS) for p in SOCKETS if _below(root, p).exists()),
    ]
    return HostDriver(nodes, tuple(mounts), hooks)


def find_host_root(procfs: Path = Path("/proc")) -> Path:
    """The files of the first process: those of the host also for an agent in a container, in which
    the driver's libraries are elsewhere, if it shares the host's process ids."""
    root = procfs / "1" / "root"
    try:
        next(root.iterdir(), None)
    except OSError:
        return Path("/")
    return root


def list_cached_libraries(root: Path) -> str:
    """The cache of the dynamic linker, as `ldconfig -p` prints it; empty without that command."""
    command = ["ldconfig", "-p", *(["-r", str(root)] if root != Path("/") else [])]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False, timeout=30.0
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def parse_linker_cache(text: str) -> Iterator[str]:
    """The paths in the output of `ldconfig -p`. Pure."""
    for line in text.splitlines():
        found = _CACHE_LINE.search(line)
        if found is not None:
            yield found[1]


def select_libraries(paths: Iterable[str]) -> Iterator[str]:
    """The driver's libraries among files, each name once: the first folder counts, and 64 bits
    before 32, because the linker's cache lists them so. Pure."""
    folders: dict[str, PurePosixPath] = {}
    for text in dict.fromkeys(paths):
        path = PurePosixPath(text)
        found = _LIBRARY.fullmatch(path.name)
        if found is None or found["name"] not in LIBRARIES:
            continue
        if folders.setdefault(found["name"], path.parent) == path.parent:
            yield text


def _mount_library(path: str, *, has_cache: bool) -> Iterator[Mount]:
    if has_cache:
        yield Mount(path, path)
        return
    for folder in SEARCHED_FOLDERS:
        yield Mount(path, f"{folder}/{PurePosixPath(path).name}")


def _files_in(root: Path, folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        place = _below(root, folder)
        if place.is_dir():
            yield from (f"{folder}/{each.name}" for each in sorted(place.iterdir()))


def _find_commands(root: Path) -> Iterator[str]:
    for name in COMMANDS:
        paths = (f"{folder}/{name}" for folder in COMMAND_FOLDERS)
        found = next((path for path in paths if _below(root, path).is_file()), None)
        if found is not None:
            yield found


def _cache_hooks(root: Path, folders: Iterable[str]) -> Iterator[Hook]:
    updater = next((each for each in CACHE_UPDATERS if _below(root, each).is_file()), None)
    if updater is not None:
        options = [word for folder in folders for word in ("--folder", folder)]
        yield Hook("createContainer", updater, ("nvidia-cdi-hook", "update-ldcache", *options))


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")
