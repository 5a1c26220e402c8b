"""The data directory of a cluster of `kilonova up`, as other commands find it."""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

DATA_VARIABLE = "KILONOVA_DATA_DIR"
KUBECONFIG, DATABASE, LOCK = "kubeconfig", "store.db", "lock"
"""Names of its files."""
CLUSTERS = "clusters.json"
"""The file that a directory of several clusters has instead of a database."""


def default_data_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """`kilonova/default` in the user's data directory, by the XDG convention."""
    share = environment.get("XDG_DATA_HOME")
    return Path(share or Path.home() / ".local" / "share") / "kilonova" / "default"


def is_data_directory(path: Path) -> bool:
    """Whether a cluster has ever used it."""
    return (path / DATABASE).exists() and (path / LOCK).exists()


def is_clusters_directory(path: Path) -> bool:
    """Whether it is the directory of several clusters."""
    return (path / CLUSTERS).exists()


def is_locked(path: Path) -> bool:
    """Whether a process holds its lock now: a cluster runs in it."""
    try:
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
