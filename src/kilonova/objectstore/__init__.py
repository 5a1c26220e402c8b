"""Objects by key, in a directory or on S3, behind one small interface; artifacts of OCI registries.

For what has no place in the API: builds, models, ledgers, and leases between clusters.

- An **object** is some bytes under a **key**, `models/llama/config.json`. It is written whole:
  readers see the old content or the new, never a mix.
- An **ETag** names one write of an object. It is opaque, and compared with nothing but itself.
- A **precondition** makes a write conditional: `IF_ABSENT` creates an object once, `if_match(etag)`
  replaces what was read (compare-and-swap). Of several concurrent writers exactly one succeeds,
  also from several machines; the others get `PreconditionFailed`.
- A **checksum** is computed while an object is written, stored with it, and verified on every
  complete read: damaged content raises `ChecksumMismatch` and is never returned as a whole.

A conditional write that ends with `Unavailable` may have had its effect: read the object to find
out. Therefore it is never repeated automatically. There is no conditional delete, because stores
do not agree on its meaning: to give something up for others to take, replace it by a tombstone.

`ObjectStore` is the interface; `DirectoryStore` and `S3Store` implement it. S3 needs the extra
`kilonova[s3]`, and nothing of it is loaded before it is used. `locations` reads the URLs by which
users name them. `oci` pulls and pushes artifacts of registries, which have tags and digests in
place of keys and preconditions.
"""

from kilonova.objectstore.checksums import Checksum
from kilonova.objectstore.directory.store import DirectoryStore
from kilonova.objectstore.errors import (
    AccessDenied,
    ChecksumMismatch,
    InvalidKey,
    NotFound,
    ObjectStoreError,
    ObjectTooLarge,
    PreconditionFailed,
    StoreNotUsable,
    Unavailable,
)
from kilonova.objectstore.interface import (
    IF_ABSENT,
    ListPage,
    ObjectInfo,
    ObjectReader,
    ObjectStore,
    Precondition,
    StoredObject,
    if_match,
)
from kilonova.objectstore.s3.settings import S3Limits, S3Settings
from kilonova.objectstore.s3.store import S3Store

__all__ = [
    "IF_ABSENT",
    "AccessDenied",
    "Checksum",
    "ChecksumMismatch",
    "DirectoryStore",
    "InvalidKey",
    "ListPage",
    "NotFound",
    "ObjectInfo",
    "ObjectReader",
    "ObjectStore",
    "ObjectStoreError",
    "ObjectTooLarge",
    "Precondition",
    "PreconditionFailed",
    "S3Limits",
    "S3Settings",
    "S3Store",
    "StoreNotUsable",
    "StoredObject",
    "Unavailable",
    "if_match",
]
