"""Server-side apply and field ownership (`metadata.managedFields`).

Terms: a *manager* is a client that writes objects, identified by the name it sends. It *owns* the
fields it set last, which an *entry* of `metadata.managedFields` lists as a set of field paths
(`field_sets`). The *merge schema* of a kind (`merge_schema`), compiled from its schema, determines
how values are split into fields.

`record_update` is called for every create, update and patch, `apply` for every apply; `apply` also
decides which applied fields conflict (`_resolve_conflicts`). All are functions of plain JSON; the
reference is the library structured-merge-diff. One thing is simpler: entries of another version of
a kind are read with the schema of the version in use.
"""

from kilonova.local.apiserver.field_manager.apply import apply
from kilonova.local.apiserver.field_manager.comparison import FieldChanges, compare_objects
from kilonova.local.apiserver.field_manager.conflict_errors import ApplyConflict, FieldConflict
from kilonova.local.apiserver.field_manager.field_sets import (
    FieldFilter,
    FieldSet,
    exclude_fields,
    include_fields,
)
from kilonova.local.apiserver.field_manager.merge_schema import MergeSchema, compile_merge_schema
from kilonova.local.apiserver.field_manager.owned_fields import (
    applied_fields,
    created_object_fields,
)
from kilonova.local.apiserver.field_manager.update import keep_unchanged_times, record_update

__all__ = [
    "ApplyConflict",
    "FieldChanges",
    "FieldConflict",
    "FieldFilter",
    "FieldSet",
    "MergeSchema",
    "applied_fields",
    "apply",
    "compare_objects",
    "compile_merge_schema",
    "created_object_fields",
    "exclude_fields",
    "include_fields",
    "keep_unchanged_times",
    "record_update",
]
