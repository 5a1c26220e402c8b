"""`kilonova down --wipe`: forget a cluster. Only what clusters have put into the folder goes."""

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from kilonova.cli.failure import CommandFailed
from kilonova.local.folder import Folder, FolderInUse


@dataclass(frozen=True, slots=True)
class Belongings:
    """What would be removed, by name, and what would be left."""

    folder: Path
    ours: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """For whoever is to agree."""
        if not self.ours:
            return f"There is nothing to forget: {self.folder} does not exist."
        removed = f"To be removed from {self.folder}: {', '.join(self.ours)}."
        left = f"\nLeft alone, since it is not Kilonova's: {', '.join(self.others)}."
        return removed + (left if self.others else "")


def find_belongings(data: Path) -> Belongings:
    """What of a folder is a cluster's; `CommandFailed` if it is no folder of a cluster."""
    folder = Folder(data)
    if not data.exists():
        return Belongings(data, ())
    if not folder.is_ours():
        raise CommandFailed(
            f"{data} is no data folder of Kilonova (it has no {folder.database.name} and no lock): "
            "nothing was removed; name the right one with --data DIR"
        )
    ours = [each.name for each in folder.belongings()]
    others = sorted({each.name for each in data.iterdir()} - set(ours))
    return Belongings(data, tuple(ours), tuple(others))


def wipe_data(data: Path) -> str:
    """Remove what is ours of a folder on which nothing runs any more, and say so."""
    from kilonova.local.nodes.process.keeper.client import KeeperRuntime

    folder = Folder(data)
    try:
        folder.acquire()  # so that nobody starts on what is half removed
        asyncio.run(KeeperRuntime(data / "keeper").shutdown())  # pods that `--keep-pods` left
        for each in folder.belongings():
            if each.is_dir() and not each.is_symlink():
                _open_folders(each)
                shutil.rmtree(each)
            else:
                each.unlink()
        folder.release()
        if any(data.iterdir()) or data.is_symlink():
            return f"Forgotten. What is not Kilonova's stays in {data}."
        data.rmdir()
    except FolderInUse as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise CommandFailed(f"{error.filename}: {error.strerror}: not all was removed") from error
    return f"Forgotten: {data} is gone."


def _open_folders(top: Path) -> None:
    """Let the owner into all folders: pods may have closed some, and then nothing in them can be
    removed."""
    for place, folders, _ in os.walk(top):
        for each in folders:
            path = os.path.join(place, each)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
