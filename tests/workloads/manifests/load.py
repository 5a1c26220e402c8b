"""Manifests by name: the workloads of the scenarios.

`samples/` rely on defaults. `topology` is the binding that every `tas-` manifest names.
`definitions/` are CRDs of other schedulers.
"""

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
MANIFEST_NAMES = sorted(
    str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("**/*.yaml")
)


def load_manifest(name: str) -> list[Any]:
    """All objects of a manifest, in their order."""
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()))


def load_set(name: str) -> Any:
    """The PodCliqueSet of a manifest."""
    (found,) = [each for each in load_manifest(name) if each["kind"] == "PodCliqueSet"]
    return found
