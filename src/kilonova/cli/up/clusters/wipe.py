"""`kilonova down --wipe` of several clusters: removes what they wrote, and no other files."""

import shutil
from contextlib import suppress
from pathlib import Path

from kilonova.cli.up.clusters.directory import ClustersDirectory
from kilonova.cli.up.wipe import DataDirectoryContents, inspect_contents, wipe_data_directory
from kilonova.component.command.data_directory import CLUSTERS
from kilonova.component.failure import CommandFailed


def inspect_several(data: Path) -> DataDirectoryContents:
    """What would be removed from a directory of several clusters."""
    directory = ClustersDirectory.read(data)
    owned: list[str] = []
    foreign: list[str] = []
    for cluster in directory.clusters:
        path = directory.data_of(cluster)
        if not path.exists():
            continue
        found = inspect_contents(path)
        owned += [f"clusters/{cluster.name}/{each}" for each in found.owned]
        foreign += [f"clusters/{cluster.name}/{each}" for each in found.foreign]
    shared = (directory.store, directory.kubeconfig, data / CLUSTERS)
    owned += [each.name for each in shared if each.exists()]
    known = {"clusters", *(each.name for each in shared)}
    foreign += sorted(each.name for each in data.iterdir() if each.name not in known)
    return DataDirectoryContents(data, tuple(owned), tuple(foreign))


def wipe_several(data: Path) -> str:
    """Remove the files of stopped clusters, and return what was done."""
    directory = ClustersDirectory.read(data)
    for cluster in directory.clusters:
        if directory.data_of(cluster).exists():
            wipe_data_directory(directory.data_of(cluster))
    try:
        shutil.rmtree(directory.store, ignore_errors=not directory.store.exists())
        with suppress(OSError):  # other files are there, or it was never made
            (data / "clusters").rmdir()
        directory.kubeconfig.unlink(missing_ok=True)
        # Last: it identifies the directory as ours.
        (data / CLUSTERS).unlink()
        if any(data.iterdir()) or data.is_symlink():
            return f"Removed all data of the clusters; other files stay in {data}."
        data.rmdir()
    except OSError as error:
        raise CommandFailed(
            f"{error.filename}: {error.strerror}: not all data was removed"
        ) from error
    return f"Removed {data}."
