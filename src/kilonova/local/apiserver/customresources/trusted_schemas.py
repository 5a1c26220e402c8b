"""Schemas that are not validated again when a definition contains them.

Validating a schema takes long if it contains a whole PodSpec, and loads CEL. The definitions
shipped with the program were validated when it was built; any other schema is validated once in a
process, although each write of a definition contains it. A schema is identified by its content: any
definition with the same schema is trusted, one that differs anywhere is not.
"""

from collections import OrderedDict
from hashlib import sha256

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects

_MAX_VALIDATED = 1024
_trusted_digests: set[bytes] = set()
_validated_digests: OrderedDict[bytes, None] = OrderedDict()
"""Of the last valid schemas, oldest first."""


def trust_definition(definition: JsonObject) -> None:
    """Trust the schemas of this definition in this process."""
    for version in nested_objects(definition, "spec", "versions"):
        _trusted_digests.add(schema_digest(nested_object(version, "schema", "openAPIV3Schema")))


def trust_valid_schema(digest: bytes) -> None:
    """Trust a schema that validation accepted; the oldest ones are forgotten.

    Called from compile threads as well: each step is atomic.
    """
    _validated_digests[digest] = None
    if len(_validated_digests) > _MAX_VALIDATED:
        _validated_digests.popitem(last=False)


def is_trusted(digest: bytes) -> bool:
    """Whether the `openAPIV3Schema` with this digest is trusted."""
    return digest in _trusted_digests or digest in _validated_digests


def schema_digest(source: JsonObject) -> bytes:
    """The identity of a schema: a digest of its content."""
    return sha256(msgspec.json.encode(source, order="deterministic")).digest()
