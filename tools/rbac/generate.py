"""Make the table of the roles and bindings that every cluster has from its start.

Kubernetes' source keeps the objects that its API server creates as lists in YAML, which its own
tests hold equal to the code. From those this makes `default-roles.json.gz` in
`src/kilonova/local/data`: for each resource, the objects in the order of their creation.

The same pin gives the same bytes. `--check` writes nothing and fails if the table is stale.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from tools.tables import generate, module

FOLDER = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"
FILES = {
    "clusterroles": ("cluster-roles", "controller-roles"),
    "clusterrolebindings": ("cluster-role-bindings", "controller-role-bindings"),
    "roles": ("namespace-roles",),
    "rolebindings": ("namespace-role-bindings",),
}


def main() -> None:
    generate(
        "tools.rbac.generate",
        "Make the table of default roles and bindings.",
        lambda: {"default-roles.json.gz": make_table(module("k8s.io/kubernetes") / FOLDER)},
    )


def make_table(folder: Path) -> bytes:
    """The table, before compression."""
    table = {
        plural: [bare(each) for name in names for each in listed(folder / f"{name}.yaml")]
        for plural, names in FILES.items()
    }
    return json.dumps(table, separators=(",", ":")).encode()


def listed(path: Path) -> list[dict[str, Any]]:
    """The objects of a file: of a list, or of several lists, one per namespace."""
    documents: list[Any] = list(yaml.safe_load_all(path.read_bytes()))
    return [item for document in documents for item in document["items"]]


def bare(obj: dict[str, Any]) -> dict[str, Any]:
    """Without what the resource says already, and without what is empty."""
    return {
        key: value
        for key, value in obj.items()
        if key not in ("apiVersion", "kind") and value is not None
    }


if __name__ == "__main__":
    main()
