"""The three patch types that change an object by a description of the change.

`json_patch` (RFC 6902) is a list of operations, `merge_patch` (RFC 7386) is an object laid
over the old one, `strategic_merge_patch` is the same but merges lists by the keys that the
schema names. Each is a function from plain JSON to plain JSON: inputs are left alone, and
nothing in the result is shared with the document that was patched. Where Kubernetes and the
RFC differ, these do what Kubernetes does.

Server-side apply, the fourth type, is in `kilonova.local.apply`.
"""

from kilonova.local.patch.errors import PatchError
from kilonova.local.patch.json import MAX_OPERATIONS, json_patch
from kilonova.local.patch.merge import merge_patch
from kilonova.local.patch.strategic import strategic_merge_patch
from kilonova.local.patch.values import as_go, copied, same

__all__ = [
    "MAX_OPERATIONS",
    "PatchError",
    "as_go",
    "copied",
    "json_patch",
    "merge_patch",
    "same",
    "strategic_merge_patch",
]
