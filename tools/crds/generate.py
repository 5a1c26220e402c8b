"""Generate the CustomResourceDefinitions of our kinds from the types in `kilonova.api`.

One file per kind, in `src/kilonova/api/crds`. The output is deterministic for the same types and
the same pinned Kubernetes. `--check` writes nothing and fails if a CRD is stale.
"""

import json
from collections.abc import Iterator

from kilonova.api.json import JsonObject
from tools.crds.kinds import find_kinds
from tools.crds.model import CrdKind, CrdVersion
from tools.crds.schemas import build_object_schema
from tools.tables import ROOT, write_tables

FOLDER = ROOT / "src" / "kilonova" / "api" / "crds"


def main() -> None:
    write_tables(
        "tools.crds.generate",
        "Generate the CustomResourceDefinitions of our kinds.",
        lambda: {
            f"{kind.plural}.json": encode_json(build_definition(kind)) for kind in find_kinds()
        },
        FOLDER,
    )


def build_definition(kind: CrdKind) -> JsonObject:
    """The CustomResourceDefinition of a kind."""
    spec: JsonObject = {
        "group": kind.group,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "names": {
            "kind": kind.name,
            "listKind": f"{kind.name}List",
            "plural": kind.plural,
            "singular": kind.name.lower(),
            "shortNames": list(kind.short_names),
        },
        "versions": [build_version(each) for each in kind.versions],
    }
    if len(kind.versions) > 1:
        _check_stored_fields(kind)
        spec["conversion"] = {"strategy": "None"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": spec,
    }


def build_version(version: CrdVersion) -> JsonObject:
    """One of its versions. The API server adds the schemas of apiVersion, kind and metadata."""
    subresources: JsonObject = {"status": {}}
    if version.scale is not None:
        subresources["scale"] = version.scale.to_json()
    built: JsonObject = {
        "name": version.name,
        "served": version.served,
        "storage": version.storage,
        "schema": {"openAPIV3Schema": _build_schema(version)},
        "subresources": subresources,
        "additionalPrinterColumns": [each.to_json() for each in version.columns],
    }
    if version.deprecation:
        built |= {"deprecated": True, "deprecationWarning": version.deprecation}
    return built


def _build_schema(version: CrdVersion) -> JsonObject:
    return build_object_schema(version.type, exclude=["metadata"])


def _check_stored_fields(kind: CrdKind) -> None:
    """A field that the stored version lacks would be pruned from what clients of another write."""
    stored = set(_list_fields(_build_schema(kind.stored_version)))
    for version in kind.versions:
        lost = [each for each in _list_fields(_build_schema(version)) if each not in stored]
        if lost:
            raise ValueError(
                f"{kind.plural}.{kind.group}: {version.name} has {lost[0]}, which the stored "
                f"version {kind.stored_version.name} lacks: add the field there"
            )


def _list_fields(schema: JsonObject, path: str = "") -> Iterator[str]:
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from _list_fields(schema[inner], f"{path}[]")
    properties: JsonObject = schema.get("properties", {})
    for name, each in properties.items():
        yield f"{path}.{name}"
        yield from _list_fields(each, f"{path}.{name}")


def encode_json(value: JsonObject) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{text}\n".encode()


if __name__ == "__main__":
    main()
