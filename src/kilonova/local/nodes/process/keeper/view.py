"""The file system as a container sees it: this machine's, with mounts where they are wanted.

Runs in the container's process, in a mount namespace of its own, before its command. The machine
itself is never changed: where a mount point is missing, its folder gets a *layer*, an overlay
whose upper half is memory. What the container writes there goes with it, as the writable layer of
an image does. A missing folder right below `/` gives the container a root of its own, made of the
machine's folders. A mount point missing inside another mount is made in that one.
"""

import contextlib
import os
import re
import stat
from collections.abc import Sequence

from kilonova.local.nodes.process.keeper import linux
from kilonova.local.nodes.process.runtime import Mount

_ESCAPED = re.compile(rb"\\(\d{3})")


class CannotMount(Exception):
    """A mount is impossible; the text names its target."""


def needs_root(targets: Sequence[str]) -> bool:
    """Whether one of them begins with a folder that `/` does not have."""
    return any(not os.path.lexists("/" + _parts(target)[0]) for target in targets)


def build(mounts: Sequence[Mount], scratch: str, hidden: Sequence[str] = ()) -> None:
    """Make the view of this process. `scratch` is an empty folder to work on.

    What is `hidden` is covered by an empty folder, in which are only mounts that belong there; also
    where a mount shows it at another place.
    """
    linux.mount("", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    private: set[int] = set()  # devices that only this view has
    if needs_root([each.target for each in mounts]):
        linux.mount("tmpfs", scratch, "tmpfs", 0, "mode=755")
        _mirror("", scratch)
        linux.change_root(scratch)
        private.add(os.stat("/").st_dev)
        linux.unmount(scratch)  # a copy of the root, seen through itself
    # Opened before any layer covers them.
    spelled, hidden = hidden, [os.path.realpath(each) for each in hidden]
    sources = [(each, _opened(each)) for each in sorted(mounts, key=_depth)]
    covers = [each for mount, fd in sources for each in _shown(mount, fd, hidden, spelled)]
    covers = [each for each in covers if each not in hidden]
    below = [each for each in sources if within(os.path.realpath(each[0].target), hidden)]
    points: list[tuple[Mount, str]] = []
    _mount_all([each for each in sources if each not in below], points, private, scratch)
    # Layers are made on the scratch folder, which may be hidden: now they are all there.
    for folder in filter(
        os.path.isdir, [*hidden, *(each for each in covers if not within(each, hidden))]
    ):
        _cover(folder)
        private.add(os.stat(folder).st_dev)
    _mount_all(below, points, private, scratch)
    for folder in filter(os.path.isdir, (each for each in covers if within(each, hidden))):
        _cover(folder)
    for each, point in points:
        if each.read_only:
            linux.make_read_only(point)


def _cover(folder: str) -> None:
    linux.mount("tmpfs", folder, "tmpfs", 0, "mode=755,size=1m")


def _shown(mount: Mount, fd: int, hidden: Sequence[str], spelled: Sequence[str]) -> list[str]:
    """Where a mount shows hidden folders that lie below its source.

    A source that lies in one itself is meant only where its path says so: a link that leads there
    may have been made after the path was checked.
    """
    source = os.readlink(_link(fd))
    if within(source, hidden) and not within(str(mount.source), [*hidden, *spelled]):
        raise CannotMount(f'mounting "{mount.source}" at "{mount.target}": it leads to {source}')
    target = os.path.realpath(mount.target).rstrip("/")
    return [
        target + folder[len(source.rstrip("/")) :]
        for folder in hidden
        if folder != source and within(folder, [source])
    ]


def _mount_all(
    sources: Sequence[tuple[Mount, int]],
    points: list[tuple[Mount, str]],
    private: set[int],
    scratch: str,
) -> None:
    for each, source in sources:
        point = os.path.realpath(each.target)
        try:
            _make_point(point, source, private, [done for _, done in points], scratch)
            linux.bind(_link(source), point)
        except OSError as error:
            raise CannotMount(
                f'mounting "{each.source}" at "{each.target}": {error.strerror}'
            ) from error
        points.append((each, point))
        os.close(source)


def _make_point(
    point: str, source: int, private: set[int], volumes: Sequence[str], scratch: str
) -> None:
    is_folder = stat.S_ISDIR(os.stat(source).st_mode)
    if os.path.exists(point):
        if os.path.isdir(point) != is_folder:
            problem = "not a directory" if is_folder else "is a directory"
            raise CannotMount(f'mounting at "{point}": {problem}')
        return
    above = os.path.dirname(point)
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    if os.stat(above).st_dev not in private and not within(above, volumes):
        _add_layer(above, scratch)
        private.add(os.stat(above).st_dev)
    if is_folder:
        os.makedirs(point)
    else:
        os.makedirs(os.path.dirname(point), exist_ok=True)
        os.close(os.open(point, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _add_layer(folder: str, scratch: str) -> None:
    """Make a folder writable for this view alone."""
    lower = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    below = {each: os.open(each, os.O_PATH) for each in _mounts_below(folder)}
    linux.mount("tmpfs", scratch, "tmpfs", 0, "mode=755")
    at = os.open(scratch, os.O_PATH | os.O_DIRECTORY)
    parts = {"lowerdir": lower}
    for part in ("upperdir", "workdir"):
        os.mkdir(part, dir_fd=at)
        parts[part] = os.open(part, os.O_PATH | os.O_DIRECTORY, dir_fd=at)
    _look_like(_link(parts["upperdir"]), os.stat(lower))
    # By descriptor: a path could hold the characters that separate options.
    options = ",".join(f"{part}={_link(fd)}" for part, fd in parts.items())
    try:
        linux.mount("overlay", folder, "overlay", 0, options)
    except OSError:  # too many overlays on each other, or mounts below that must not be uncovered
        linux.mount("tmpfs", folder, "tmpfs", 0, "mode=755")
        _mirror(_link(lower), folder)
    else:
        for point, fd in below.items():
            linux.bind(_link(fd), point)
    if not within(scratch, [folder]):  # else it is covered now
        linux.unmount(scratch)
    for fd in (at, *parts.values(), *below.values()):
        os.close(fd)


def _mirror(source: str, target: str) -> None:
    """Fill an empty folder with all that another has."""
    for entry in os.scandir(source or "/"):
        here, there = f"{source}/{entry.name}", f"{target}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(here), there)
            continue
        if entry.is_dir():
            os.mkdir(there)
        else:
            os.close(os.open(there, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        with contextlib.suppress(FileNotFoundError):  # gone since it was listed
            linux.bind(here, there)


def _look_like(path: str, model: os.stat_result) -> None:
    os.chmod(path, stat.S_IMODE(model.st_mode))
    with contextlib.suppress(OSError):  # an owner that this user namespace does not know
        os.chown(path, model.st_uid, model.st_gid)


def _mounts_below(folder: str) -> list[str]:
    """Mount points right below a folder, not those that lie below another."""
    with open("/proc/self/mountinfo", "rb") as lines:
        points = {os.fsdecode(_ESCAPED.sub(_unescape, line.split()[4])) for line in lines}
    below: list[str] = []
    for point in sorted(points):
        if point != folder and within(point, [folder]) and not within(point, below):
            below.append(point)
    return below


def _unescape(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])


def within(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is one of some folders, or below one."""
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _opened(each: Mount) -> int:
    try:
        return os.open(each.source, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise CannotMount(f'mounting at "{each.target}": {error.strerror}: {each.source}') from None


def _link(fd: int) -> str:
    return f"/proc/self/fd/{fd}"


def _parts(target: str) -> list[str]:
    return os.path.normpath(target).strip("/").split("/")


def _depth(mount: Mount) -> int:
    return len(_parts(mount.target))
