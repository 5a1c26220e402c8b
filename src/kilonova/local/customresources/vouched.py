"""Schemas that need not be judged when a definition brings them: somebody vouches for them.

To judge a schema takes long where it holds a whole PodSpec, and loads CEL. Definitions that come
with the program were judged when it was made. A schema is known by its content: whoever writes
the same again is spared as well, and a schema that differs anywhere is not.
"""

from hashlib import sha256

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import objects, part

_vouched: set[bytes] = set()


def vouch_for(definition: JsonObject) -> None:
    """From now on, take the schemas of this definition as good in this process."""
    for version in objects(definition, "spec", "versions"):
        _vouched.add(digest(part(version, "schema", "openAPIV3Schema")))


def is_vouched_for(source: JsonObject) -> bool:
    """Whether an `openAPIV3Schema` is one of those."""
    return bool(_vouched) and digest(source) in _vouched


def digest(source: JsonObject) -> bytes:
    """What a schema is known by."""
    return sha256(msgspec.json.encode(source, order="deterministic")).digest()
