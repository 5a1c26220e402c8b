"""Generate the table of the default RBAC roles and bindings.

Kubernetes' source contains the objects that its API server creates as YAML lists, which its own
tests compare with the code. They become `default-roles.json.gz` in `src/kilonova/local/data`: for
each resource, the objects in the order of their creation. The output is deterministic for the same
pin. `--check` writes nothing and fails if the table is stale.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from tools.tables import find_module, write_tables

FOLDER = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"
FILES = {
    "clusterroles": ("cluster-roles", "controller-roles"),
    "clusterrolebindings": ("cluster-role-bindings", "controller-role-bindings"),
    "roles": ("namespace-roles",),
    "rolebindings": ("namespace-role-bindings",),
}


def main() -> None:
    write_tables(
        "tools.rbac.generate",
        "Make the table of default roles and bindings.",
        lambda: {"default-roles.json.gz": build_table(find_module("k8s.io/kubernetes") / FOLDER)},
    )


def build_table(folder: Path) -> bytes:
    """The table, before compression."""
    table = {
        plural: [
            strip_metadata(each) for name in names for each in list_objects(folder / f"{name}.yaml")
        ]
        for plural, names in FILES.items()
    }
    return json.dumps(table, separators=(",", ":")).encode()


def list_objects(path: Path) -> list[dict[str, Any]]:
    """The objects of a file: of a list, or of several lists, one per namespace."""
    documents: list[Any] = list(yaml.safe_load_all(path.read_bytes()))
    return [item for document in documents for item in document["items"]]


def strip_metadata(obj: dict[str, Any]) -> dict[str, Any]:
    """Without apiVersion, kind and empty fields."""
    return {
        key: value
        for key, value in obj.items()
        if key not in ("apiVersion", "kind") and value is not None
    }


if __name__ == "__main__":
    main()
