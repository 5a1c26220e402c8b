"""CustomResourceDefinitions of our kinds, for any Kubernetes.

The files here are generated from the types of `kilonova.api` by `tools/crds`.
"""

from importlib.resources import files

import msgspec

from kilonova.api.json import JsonObject


def load_definitions() -> list[JsonObject]:
    """All definitions, sorted by name. Each call reads the files again: callers may change the
    result."""
    found = [each for each in files(__name__).iterdir() if each.name.endswith(".json")]
    return [
        msgspec.json.decode(each.read_bytes(), type=JsonObject)
        for each in sorted(found, key=lambda each: each.name)
    ]
