"""The data directory of several clusters: which there are, and where the files of each are."""

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kilonova.cli.up.clusters.kubeconfig import merge_kubeconfigs
from kilonova.component.command.data_directory import (
    CLUSTERS,
    KUBECONFIG,
    is_clusters_directory,
    is_data_directory,
    is_locked,
)
from kilonova.component.failure import CommandFailed

MAX_CLUSTERS = 9
_LOCATIONS = (
    ("dal1", "us-south"),
    ("msp2", "us-north"),
    ("fra3", "eu-central"),
    ("sin4", "ap-southeast"),
    ("lon5", "eu-west"),
    ("iad6", "us-east"),
    ("syd7", "ap-sydney"),
    ("gru8", "sa-east"),
    ("nrt9", "ap-northeast"),
)
"""Names and regions of the clusters, in their order."""


class ClusterEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One of the clusters."""

    name: str
    """Its name in the fleet, and of its context in the kubeconfig."""
    region: str
    index: int
    """Its position, from 0, from which its ports and addresses are derived."""


class _ClustersFile(msgspec.Struct, frozen=True, rename="camel"):
    clusters: tuple[ClusterEntry, ...]
    port: int
    """The port of the first cluster's API; 0 if any free ones were asked for."""


@dataclass(frozen=True, slots=True)
class ClustersDirectory:
    """Files of several clusters."""

    path: Path
    clusters: tuple[ClusterEntry, ...]
    port: int

    @classmethod
    def create(cls, path: Path, count: int, port: int) -> "ClustersDirectory":
        """The directory with this many clusters; those that it has already stay. Writes nothing.

        `CommandFailed` if it belongs to a single cluster, or has more clusters.
        """
        if is_data_directory(path):
            raise CommandFailed(
                f"{path} is the data directory of one cluster: name another one for several "
                "clusters with --data DIR"
            )
        known = cls.read(path) if is_clusters_directory(path) else None
        if known is not None and len(known.clusters) > count:
            raise CommandFailed(
                f"{path} has {len(known.clusters)} clusters: start them with --clusters "
                f"{len(known.clusters)}, or name another directory with --data DIR"
            )
        entries = tuple(
            ClusterEntry(name, region, index)
            for index, (name, region) in enumerate(_LOCATIONS[:count])
        )
        return cls(path, entries, port if known is None else known.port)

    @classmethod
    def read(cls, path: Path) -> "ClustersDirectory":
        """The directory as it was written."""
        try:
            read = msgspec.json.decode((path / CLUSTERS).read_bytes(), type=_ClustersFile)
        except (OSError, msgspec.MsgspecError) as error:
            raise CommandFailed(
                f"{path / CLUSTERS} cannot be read: {error}: restore it, or remove {path}"
            ) from error
        return cls(path, read.clusters, read.port)

    @property
    def kubeconfig(self) -> Path:
        """The file with a context for each cluster."""
        return self.path / KUBECONFIG

    @property
    def store(self) -> Path:
        """The fleet's store: a directory that all clusters share."""
        return self.path / "fleet"

    def data_of(self, cluster: ClusterEntry) -> Path:
        """The data directory of one of the clusters."""
        return self.path / "clusters" / cluster.name

    def is_running(self, cluster: ClusterEntry) -> bool:
        """Whether a process runs the cluster now."""
        return is_locked(self.data_of(cluster))

    def write(self) -> None:
        """Record the clusters."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = msgspec.json.encode(_ClustersFile(self.clusters, self.port))
        _write(self.path / CLUSTERS, content)

    def write_kubeconfig(self) -> None:
        """Write the kubeconfig, with all clusters that have started before."""
        files = {each.name: self.data_of(each) / KUBECONFIG for each in self.clusters}
        existing = {name: file for name, file in files.items() if file.exists()}
        _write(self.kubeconfig, merge_kubeconfigs(existing))


def _write(file: Path, content: bytes) -> None:
    """Replace a file as a whole; only its owner may read it."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    temporary.touch(0o600)
    temporary.write_bytes(content)
    temporary.replace(file)
