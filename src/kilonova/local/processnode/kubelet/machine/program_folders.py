"""Makes folders with programs visible to containers that could not reach them."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from kilonova.local.processnode.cri.api import Mount


def expose_folders(
    folders: Iterable[str], user: int, group: int | None
) -> tuple[tuple[Mount, ...], tuple[str, ...]]:
    """Mounts, and the directories to hide, by which a user can read folders.

    An interpreter is often below the home directory of root, which others cannot traverse. For
    such a user that directory is empty anyway: it is hidden, and has nothing but the folders.
    """
    mounts: dict[str, Mount] = {}
    hidden: dict[str, None] = {}
    for folder in folders:
        path, spelled = os.path.realpath(folder), os.path.abspath(folder)
        closed = _find_closed(path, user, group)
        if closed is None or not os.path.isdir(path):
            continue
        hidden[closed] = None
        mounts[path] = Mount(Path(path), path, read_only=True)
        if spelled.startswith(f"{closed}/"):
            mounts[spelled] = Mount(Path(path), spelled, read_only=True)
    return tuple(mounts.values()), tuple(hidden)


def uncover_folders(folders: Iterable[str], targets: Iterable[str]) -> tuple[Mount, ...]:
    """Mounts by which folders are seen although a volume is mounted above them, such as at /tmp."""
    above = [os.path.normpath(each) for each in targets]
    spelled = dict.fromkeys(
        path for folder in folders for path in (os.path.abspath(folder), os.path.realpath(folder))
    )
    return tuple(
        Mount(Path(os.path.realpath(path)), path, read_only=True)
        for path in spelled
        if os.path.isdir(path) and any(path.startswith(f"{each}/") for each in above)
    )


def _find_closed(path: str, user: int, group: int | None) -> str | None:
    """The first directory above a path that a user cannot traverse."""
    for above in reversed(Path(path).parents):
        found = above.stat()
        if found.st_uid == user:
            needed = stat.S_IXUSR
        elif found.st_gid == (group or 0):
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not found.st_mode & needed:
            return str(above)
    return None
