"""Make the CustomResourceDefinitions of our kinds from the types in `kilonova.api`.

One file for each kind, in `src/kilonova/api/crds`. The same types and the same pinned Kubernetes
give the same bytes. `--check` writes nothing and fails if a definition is stale.
"""

import json

from kilonova.api.json import JsonObject
from tools.crds.kinds import KINDS, Kind
from tools.crds.schemas import object_schema
from tools.tables import ROOT, generate

FOLDER = ROOT / "src" / "kilonova" / "api" / "crds"


def main() -> None:
    generate(
        "tools.crds.generate",
        "Make the CustomResourceDefinitions of our kinds.",
        lambda: {f"{kind.plural}.json": written(definition(kind)) for kind in KINDS},
        FOLDER,
    )


def definition(kind: Kind) -> JsonObject:
    """The CustomResourceDefinition of a kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short],
            },
            "versions": [version(kind)],
        },
    }


def version(kind: Kind) -> JsonObject:
    """Its only version. What every object has (metadata …) is the server's to describe."""
    subresources: JsonObject = {"status": {}}
    if kind.selector:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": kind.selector,
        }
    return {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": object_schema(kind.type, leaving_out=["metadata"])},
        "subresources": subresources,
        "additionalPrinterColumns": [each.json() for each in kind.columns],
    }


def written(value: JsonObject) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{text}\n".encode()


if __name__ == "__main__":
    main()
