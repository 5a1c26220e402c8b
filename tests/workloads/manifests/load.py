"""Manifests as people write them, by name: the shapes that the scenarios are about.

`samples/` leaves to defaults what can be left to them. `topology` is what every `tas-` names.
`definitions/` are kinds that other schedulers bring along.
"""

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
NAMES = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("**/*.yaml"))


def manifest(name: str) -> list[Any]:
    """All objects of a manifest, in their order."""
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()))


def set_of(name: str) -> Any:
    """The PodCliqueSet of a manifest."""
    (found,) = [each for each in manifest(name) if each["kind"] == "PodCliqueSet"]
    return found
