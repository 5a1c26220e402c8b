"""`kilonova down --wipe`: removes the data of a cluster, and no other files in its directory."""

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from kilonova.component.failure import CommandFailed
from kilonova.local.data_directory import SHIM_DIRECTORY, DataDirectory, DataDirectoryInUse


@dataclass(frozen=True, slots=True)
class DataDirectoryContents:
    """Names of files that belong to the cluster, and of other files."""

    path: Path
    owned: tuple[str, ...]
    foreign: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """What would be removed, for the confirmation."""
        if not self.owned:
            return f"There is nothing to remove: {self.path} does not exist."
        removed = f"To be removed from {self.path}: {', '.join(self.owned)}."
        foreign = f"\nNot removed, since not Kilonova's: {', '.join(self.foreign)}."
        return removed + (foreign if self.foreign else "")


def inspect_contents(data: Path) -> DataDirectoryContents:
    """The contents of a data directory; `CommandFailed` if it is not one."""
    directory = DataDirectory(data)
    if not data.exists():
        return DataDirectoryContents(data, ())
    if not directory.is_data_directory():
        raise CommandFailed(
            f"{data} is not a data directory of Kilonova (it has no {directory.database.name} and "
            "no lock): nothing was removed; name the right one with --data DIR"
        )
    owned = [each.name for each in directory.owned_files()]
    foreign = sorted({each.name for each in data.iterdir()} - set(owned))
    return DataDirectoryContents(data, tuple(owned), tuple(foreign))


def wipe_data_directory(data: Path) -> str:
    """Remove the files of a stopped cluster, and return what was done."""
    from kilonova.local.processnode.cri.client import ShimRuntime

    directory = DataDirectory(data)
    try:
        directory.acquire()  # no cluster must start while files are being removed
        asyncio.run(ShimRuntime(data / SHIM_DIRECTORY).shutdown())  # pods that `--keep-pods` left
        for each in directory.owned_files():
            if each.is_dir() and not each.is_symlink():
                _make_removable(each)
                shutil.rmtree(each)
            else:
                each.unlink()
        directory.release()
        if any(data.iterdir()) or data.is_symlink():
            return f"Removed all data of the cluster; other files stay in {data}."
        data.rmdir()
    except DataDirectoryInUse as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise CommandFailed(
            f"{error.filename}: {error.strerror}: not all data was removed"
        ) from error
    return f"Removed {data}."


def _make_removable(top: Path) -> None:
    """Make all directories accessible to their owner: pods may have changed modes, and files in
    such directories could not be removed."""
    for parent, directories, _ in os.walk(top):
        for each in directories:
            path = os.path.join(parent, each)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
