"""A folder whose files change all at once, as the kubelet keeps volumes of ConfigMaps.

The files are in a folder of their own, to which `..data` leads; what users see are links through
it. A change is a new folder and one renaming of `..data`: whoever reads sees all old or all new.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp

from kilonova.local.nodes.process.kubelet.payloads import File

_DATA = "..data"
_NEW_DATA = "..data_tmp"


def write_files(folder: Path, files: Mapping[str, File]) -> bool:
    """Make these the files of a folder; whether anything had to change.

    OSError or ValueError where one of them cannot be, or would be outside.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    link = folder / _DATA
    old = folder / os.readlink(link) if link.is_symlink() else None
    changed = old is None or _contents(old) != dict(files)
    if changed:
        new = Path(mkdtemp(prefix="..", dir=folder))
        new.chmod(0o755)
        try:
            _fill(new, files)
        except (OSError, ValueError):
            shutil.rmtree(new)
            raise
        waiting = folder / _NEW_DATA
        waiting.unlink(missing_ok=True)
        waiting.symlink_to(new.name)
        waiting.rename(link)
    _show(folder, {name.partition("/")[0] for name in files})
    _remove_leftovers(folder, os.readlink(link))
    return changed


def _fill(folder: Path, files: Mapping[str, File]) -> None:
    for name, file in files.items():
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"{name} is not inside of the volume")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        path.write_bytes(file.data)
        path.chmod(file.mode)


def _contents(folder: Path) -> dict[str, File]:
    return {
        str(path.relative_to(folder)): File(path.read_bytes(), path.stat().st_mode & 0o7777)
        for path in folder.rglob("*")
        if path.is_file()
    }


def _show(folder: Path, names: set[str]) -> None:
    for name in names:
        shown = folder / name
        if not shown.is_symlink():
            shown.symlink_to(f"{_DATA}/{name}")
    for shown in folder.iterdir():
        if not shown.name.startswith("..") and shown.name not in names and shown.is_symlink():
            shown.unlink()


def _remove_leftovers(folder: Path, present: str) -> None:
    for path in folder.iterdir():
        inner = path.name.startswith("..") and path.is_dir() and not path.is_symlink()
        if inner and path.name != present:
            shutil.rmtree(path)
