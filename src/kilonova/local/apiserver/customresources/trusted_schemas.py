"""Schemas that are not validated again when a definition contains them.

Validating a schema takes long if it contains a whole PodSpec, and loads CEL. The definitions
shipped with the program were validated when it was built. A schema is identified by its content:
any definition with the same schema is trusted, one that differs anywhere is not.
"""

from hashlib import sha256

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects

_trusted_digests: set[bytes] = set()


def trust_definition(definition: JsonObject) -> None:
    """Trust the schemas of this definition in this process."""
    for version in nested_objects(definition, "spec", "versions"):
        _trusted_digests.add(schema_digest(nested_object(version, "schema", "openAPIV3Schema")))


def is_trusted(source: JsonObject) -> bool:
    """Whether an `openAPIV3Schema` is trusted."""
    return bool(_trusted_digests) and schema_digest(source) in _trusted_digests


def schema_digest(source: JsonObject) -> bytes:
    """The identity of a schema: a digest of its content."""
    return sha256(msgspec.json.encode(source, order="deterministic")).digest()
