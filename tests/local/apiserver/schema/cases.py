"""The tables of this folder: what was sent, and the responses of a real API server."""

from pathlib import Path
from typing import Any

import yaml

GROUP, KIND, VERSION = "ex.com", "Foo", "v1"
"""The custom kind of `custom_cases.yaml`."""


def load(name: str) -> Any:
    return yaml.safe_load((Path(__file__).parent / name).read_text())


def custom_object(case: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, **case["object"]}


def definition(plural: str, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A CustomResourceDefinition with that schema."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


def strict_error(kind: str, version: str, unknown: list[str]) -> str:
    fields = ", ".join(f'unknown field "{path}"' for path in unknown)
    message = f'{kind} in version "{version}" cannot be handled as a {kind}'
    return f"{message}: strict decoding error: {fields}"
