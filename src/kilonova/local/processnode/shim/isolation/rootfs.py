"""The view of a container: this machine's file system with the container's mounts.

Runs in the container's process, in a mount namespace of its own, before its command. The machine
itself is never changed: a missing mount point is created in an overlay whose upper layer is in
memory. What the container writes there is discarded with it, like the writable layer of an image. A
missing directory directly below `/` gives the container a root of its own, made of the machine's
directories. A mount point missing inside another mount is created in that mount.
"""

import contextlib
import os
import re
import stat
from collections.abc import Sequence

from kilonova.local.processnode.cri.api import Mount
from kilonova.local.processnode.shim.isolation import linux

_OCTAL_ESCAPE = re.compile(rb"\\(\d{3})")


class MountError(Exception):
    """A mount is impossible; the message names its target."""


def needs_own_root(targets: Sequence[str]) -> bool:
    """Whether one of them begins with a directory that `/` does not have."""
    return any(not os.path.lexists("/" + _split_path(target)[0]) for target in targets)


def build_view(mounts: Sequence[Mount], scratch: str, hidden: Sequence[str] = ()) -> None:
    """Create the view of this process. `scratch` is an empty directory to work in.

    Directories in `hidden` are covered by an empty directory that contains only mounts below them,
    also where a mount makes them visible at another path.
    """
    linux.mount("", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    private: set[int] = set()  # devices that only this view has
    if needs_own_root([each.target for each in mounts]):
        linux.mount("tmpfs", scratch, "tmpfs", 0, "mode=755")
        _mirror_directory("", scratch)
        linux.pivot_root(scratch)
        private.add(os.stat("/").st_dev)
        linux.unmount(scratch)  # a copy of the root, bind-mounted on itself
    # By descriptor: a mount of the container, such as one at /tmp, may cover the path.
    above_scratch = os.open(os.path.dirname(scratch), os.O_PATH | os.O_DIRECTORY)
    scratch = f"{_fd_path(above_scratch)}/{os.path.basename(scratch)}"
    # Opened before any overlay covers them.
    hidden_paths, hidden = hidden, [os.path.realpath(each) for each in hidden]
    sources = [(each, _open_source(each)) for each in sorted(mounts, key=_path_depth)]
    covers = [
        each
        for mount, fd in sources
        for each in _find_exposed_paths(mount, fd, hidden, hidden_paths)
    ]
    covers = [each for each in covers if each not in hidden]
    below = [each for each in sources if is_within(os.path.realpath(each[0].target), hidden)]
    points: list[tuple[Mount, str]] = []
    _bind_mounts([each for each in sources if each not in below], points, private, scratch)
    # Overlays are made in the scratch directory, which may be hidden: by now all are mounted.
    for folder in filter(
        os.path.isdir, [*hidden, *(each for each in covers if not is_within(each, hidden))]
    ):
        _cover_directory(folder)
        private.add(os.stat(folder).st_dev)
    _bind_mounts(below, points, private, scratch)
    for folder in filter(os.path.isdir, (each for each in covers if is_within(each, hidden))):
        _cover_directory(folder)
    os.close(above_scratch)
    for each, point in points:
        if each.read_only:
            linux.remount_read_only(point)


def _cover_directory(folder: str) -> None:
    linux.mount("tmpfs", folder, "tmpfs", 0, "mode=755,size=1m")


def _find_exposed_paths(
    mount: Mount, fd: int, hidden: Sequence[str], spelled: Sequence[str]
) -> list[str]:
    """The paths at which a mount exposes hidden directories below its source.

    A source inside a hidden directory is accepted only by its own path: a link to it may have
    been created after the path was checked.
    """
    source = os.readlink(_fd_path(fd))
    if is_within(source, hidden) and not is_within(str(mount.source), [*hidden, *spelled]):
        raise MountError(f'mounting "{mount.source}" at "{mount.target}": it leads to {source}')
    target = os.path.realpath(mount.target).rstrip("/")
    return [
        target + folder[len(source.rstrip("/")) :]
        for folder in hidden
        if folder != source and is_within(folder, [source])
    ]


def _bind_mounts(
    sources: Sequence[tuple[Mount, int]],
    points: list[tuple[Mount, str]],
    private: set[int],
    scratch: str,
) -> None:
    for each, source in sources:
        point = os.path.realpath(each.target)
        try:
            _create_mount_point(point, source, private, [done for _, done in points], scratch)
            linux.bind_mount(_fd_path(source), point)
        except OSError as error:
            raise MountError(
                f'mounting "{each.source}" at "{each.target}": {error.strerror}'
            ) from error
        points.append((each, point))
        os.close(source)


def _create_mount_point(
    point: str, source: int, private: set[int], volumes: Sequence[str], scratch: str
) -> None:
    is_folder = stat.S_ISDIR(os.stat(source).st_mode)
    if os.path.exists(point):
        if os.path.isdir(point) != is_folder:
            problem = "not a directory" if is_folder else "is a directory"
            raise MountError(f'mounting at "{point}": {problem}')
        return
    above = os.path.dirname(point)
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    if os.stat(above).st_dev not in private and not is_within(above, volumes):
        _add_overlay(above, scratch)
        private.add(os.stat(above).st_dev)
    if is_folder:
        os.makedirs(point)
    else:
        os.makedirs(os.path.dirname(point), exist_ok=True)
        os.close(os.open(point, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _add_overlay(folder: str, scratch: str) -> None:
    """Make a directory writable in this view only."""
    lower = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    below = {each: os.open(each, os.O_PATH) for each in _list_mounts_below(folder)}
    linux.mount("tmpfs", scratch, "tmpfs", 0, "mode=755")
    at = os.open(scratch, os.O_PATH | os.O_DIRECTORY)
    parts = {"lowerdir": lower}
    for part in ("upperdir", "workdir"):
        os.mkdir(part, dir_fd=at)
        parts[part] = os.open(part, os.O_PATH | os.O_DIRECTORY, dir_fd=at)
    _copy_mode_and_owner(_fd_path(parts["upperdir"]), os.stat(lower))
    # By descriptor: a path may contain the characters that separate options.
    options = ",".join(f"{part}={_fd_path(fd)}" for part, fd in parts.items())
    try:
        linux.mount("overlay", folder, "overlay", 0, options)
    except OSError:  # too many stacked overlays, or locked mounts below
        linux.mount("tmpfs", folder, "tmpfs", 0, "mode=755")
        _mirror_directory(_fd_path(lower), folder)
    else:
        for point, fd in below.items():
            linux.bind_mount(_fd_path(fd), point)
    linux.unmount(scratch)
    for fd in (at, *parts.values(), *below.values()):
        os.close(fd)


def _mirror_directory(source: str, target: str) -> None:
    """Fill an empty directory with bind mounts of another's entries."""
    for entry in os.scandir(source or "/"):
        entry_source, entry_target = f"{source}/{entry.name}", f"{target}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry_source), entry_target)
            continue
        if entry.is_dir():
            os.mkdir(entry_target)
        else:
            os.close(os.open(entry_target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        with contextlib.suppress(FileNotFoundError):  # removed since it was listed
            linux.bind_mount(entry_source, entry_target)


def _copy_mode_and_owner(path: str, model: os.stat_result) -> None:
    os.chmod(path, stat.S_IMODE(model.st_mode))
    with contextlib.suppress(OSError):  # an owner that is not mapped in this user namespace
        os.chown(path, model.st_uid, model.st_gid)


def _list_mounts_below(folder: str) -> list[str]:
    """Mount points directly below a directory, excluding nested ones."""
    with open("/proc/self/mountinfo", "rb") as lines:
        points = {
            os.fsdecode(_OCTAL_ESCAPE.sub(_unescape_octal, line.split()[4])) for line in lines
        }
    below: list[str] = []
    for point in sorted(points):
        if point != folder and is_within(point, [folder]) and not is_within(point, below):
            below.append(point)
    return below


def _unescape_octal(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])


def is_within(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is one of the directories, or below one."""
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _open_source(each: Mount) -> int:
    try:
        return os.open(each.source, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise MountError(f'mounting at "{each.target}": {error.strerror}: {each.source}') from None


def _fd_path(fd: int) -> str:
    return f"/proc/self/fd/{fd}"


def _split_path(target: str) -> list[str]:
    return os.path.normpath(target).strip("/").split("/")


def _path_depth(mount: Mount) -> int:
    return len(_split_path(mount.target))
