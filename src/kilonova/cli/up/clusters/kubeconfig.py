"""One kubeconfig with a context for each cluster."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def merge_kubeconfigs(files: Mapping[str, Path]) -> bytes:
    """A kubeconfig whose contexts, clusters and users have the names of `files`; the first is the
    current context."""
    read = {name: yaml.safe_load(file.read_text()) for name, file in files.items()}
    merged: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(read), ""),
        "clusters": [
            {"name": name, "cluster": each["clusters"][0]["cluster"]} for name, each in read.items()
        ],
        "users": [{"name": name, "user": each["users"][0]["user"]} for name, each in read.items()],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}
            for name in read
        ],
    }
    return yaml.safe_dump(merged, sort_keys=False).encode()
