"""JSON patch, JSON merge patch and strategic merge patch.

`json_patch` (RFC 6902) is a list of operations, `merge_patch` (RFC 7386) is an object that is
merged into the old one, `strategic_merge_patch` also merges lists, by the keys that the schema
names. Each is a function from plain JSON to plain JSON. Where Kubernetes and the RFC differ, these
follow Kubernetes.

Server-side apply, the fourth patch type, is in `kilonova.local.apiserver.field_manager`.
"""

from kilonova.local.apimachinery.patch.errors import PatchError
from kilonova.local.apimachinery.patch.json import MAX_OPERATIONS, json_patch
from kilonova.local.apimachinery.patch.merge import merge_patch
from kilonova.local.apimachinery.patch.strategic import strategic_merge_patch
from kilonova.local.apimachinery.patch.values import deep_copy, format_go_value, json_equal

__all__ = [
    "MAX_OPERATIONS",
    "PatchError",
    "deep_copy",
    "format_go_value",
    "json_equal",
    "json_patch",
    "merge_patch",
    "strategic_merge_patch",
]
