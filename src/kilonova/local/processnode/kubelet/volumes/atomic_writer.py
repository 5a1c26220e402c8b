"""A directory whose files change atomically, as the kubelet's AtomicWriter does for volumes.

The files are in a directory of their own, to which the link `..data` points; users see links
through `..data`. A change is a new directory and one rename of `..data`: readers see either all old
or all new files.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp

from kilonova.local.processnode.kubelet.volumes.projection import VolumeFile

_DATA_DIRECTORY = "..data"
_NEW_DATA_DIRECTORY = "..data_tmp"


def write_directory(directory: Path, files: Mapping[str, VolumeFile]) -> bool:
    """Make these the files of the directory; returns whether anything changed.

    Raises OSError or ValueError if a file cannot be written or would be outside.
    """
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    link = directory / _DATA_DIRECTORY
    old = directory / os.readlink(link) if link.is_symlink() else None
    changed = old is None or _read_payload(old) != dict(files)
    if changed:
        new = Path(mkdtemp(prefix="..", dir=directory))
        new.chmod(0o755)
        try:
            _write_payload(new, files)
        except (OSError, ValueError):
            shutil.rmtree(new)
            raise
        waiting = directory / _NEW_DATA_DIRECTORY
        waiting.unlink(missing_ok=True)
        waiting.symlink_to(new.name)
        waiting.rename(link)
    _update_links(directory, {name.partition("/")[0] for name in files})
    _remove_old_directories(directory, os.readlink(link))
    return changed


def _write_payload(folder: Path, files: Mapping[str, VolumeFile]) -> None:
    for name, file in files.items():
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"{name} is not inside of the volume")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        path.write_bytes(file.data)
        path.chmod(file.mode)


def _read_payload(folder: Path) -> dict[str, VolumeFile]:
    return {
        str(path.relative_to(folder)): VolumeFile(path.read_bytes(), path.stat().st_mode & 0o7777)
        for path in folder.rglob("*")
        if path.is_file()
    }


def _update_links(folder: Path, names: set[str]) -> None:
    for name in names:
        shown = folder / name
        if not shown.is_symlink():
            shown.symlink_to(f"{_DATA_DIRECTORY}/{name}")
    for shown in folder.iterdir():
        if not shown.name.startswith("..") and shown.name not in names and shown.is_symlink():
            shown.unlink()


def _remove_old_directories(folder: Path, present: str) -> None:
    for path in folder.iterdir():
        inner = path.name.startswith("..") and path.is_dir() and not path.is_symlink()
        if inner and path.name != present:
            shutil.rmtree(path)
