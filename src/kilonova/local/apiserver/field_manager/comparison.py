"""The changes between two objects, as sets of fields."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.patch import json_equal
from kilonova.local.apiserver.field_manager.field_sets import LEAF, FieldFilter, FieldSet, union
from kilonova.local.apiserver.field_manager.list_items import ListItemError
from kilonova.local.apiserver.field_manager.merge_schema import MergeSchema
from kilonova.local.apiserver.field_manager.owned_fields import created_fields
from kilonova.local.apiserver.field_manager.path_elements import sort_elements


class FieldChanges(msgspec.Struct, frozen=True):
    """The fields that the new object added, modified and removed."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    def filter(self, keep: FieldFilter | None) -> FieldChanges:
        """The changes without the fields that a request cannot change."""
        if keep is None:
            return self
        return FieldChanges(keep(self.added), keep(self.modified), keep(self.removed))

    def changed(self) -> FieldSet:
        """The fields that have a new value."""
        return union(self.added, self.modified)


def compare_objects(schema: MergeSchema, old: JsonObject, new: JsonObject) -> FieldChanges:
    """Compare two objects of a kind. Cheap if they are equal."""
    added, modified, removed = _compare_maps(schema, old, new)
    return FieldChanges(added or {}, modified or {}, removed or {})


_Branches: TypeAlias = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
"""Added, modified and removed below a path element; None for an empty set."""

_MODIFIED: _Branches = (None, LEAF, None)


def _compare_values(schema: MergeSchema, old: Any, new: Any) -> _Branches:
    """The changes between two values that differ."""
    before = old.__class__
    after = new.__class__
    if schema.granular and (before is dict or after is dict) and (old or new):
        branches = _compare_maps(
            schema, old if before is dict else {}, new if after is dict else {}
        )
    elif schema.associative and (before is list or after is list) and (old or new):
        branches = _compare_lists(
            schema, old if before is list else [], new if after is list else []
        )
    else:
        return _MODIFIED
    if before is not after and old is not None and new is not None:
        # A value of one type has replaced one of another type.
        added, _, removed = branches
        return added, LEAF, removed
    return branches


def _compare_maps(schema: MergeSchema, old: JsonObject, new: JsonObject) -> _Branches:
    collected = _ChangeCollector()
    contains_schemaless = schema.contains_schemaless
    for name, after in new.items():
        if name in old:
            before = old[name]
            if before is after or (
                json_equal(before, after) if contains_schemaless else before == after
            ):
                continue
            element, child = schema.elements[name]
            collected.put(element, *_compare_values(child, before, after))
        else:
            element, child = schema.elements[name]
            collected.added[element] = created_fields(child, after)
    for name in old.keys() - new.keys():
        element, child = schema.elements[name]
        collected.removed[element] = created_fields(child, old[name])
    return collected.branches()


def _compare_lists(schema: MergeSchema, old: list[Any], new: list[Any]) -> _Branches:
    collected = _ChangeCollector()
    old_items = _group_by_element(schema, old)
    new_items = _group_by_element(schema, new)
    child = schema.item_schema
    for element in old_items.keys() | new_items.keys():
        before = old_items.get(element, _NONE)
        after = new_items.get(element, _NONE)
        if len(before) == 1 == len(after):
            if not (
                json_equal(before[0], after[0])
                if child.contains_schemaless
                else before[0] == after[0]
            ):
                collected.put(element, *_compare_values(child, before[0], after[0]))
        elif len(before) > 1 and len(after) > 1:
            # Items with the same key are compared, and owned, together.
            if not json_equal(before, after):
                collected.modified[element] = LEAF
        else:
            if before:
                collected.removed[element] = (
                    created_fields(child, before[0]) if len(before) == 1 else LEAF
                )
            if after:
                collected.added[element] = (
                    created_fields(child, after[0]) if len(after) == 1 else LEAF
                )
    return collected.branches()


_NONE: list[Any] = []


def _group_by_element(schema: MergeSchema, items: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        try:
            found.setdefault(schema.item_element(item), []).append(item)
        except ListItemError:
            continue
    return found


class _ChangeCollector:
    """The changes of one level."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.added: FieldSet = {}
        self.modified: FieldSet = {}
        self.removed: FieldSet = {}

    def put(
        self,
        element: str,
        added: FieldSet | None,
        modified: FieldSet | None,
        removed: FieldSet | None,
    ) -> None:
        if added is not None:
            self.added[element] = added
        if modified is not None:
            self.modified[element] = modified
        if removed is not None:
            self.removed[element] = removed

    def branches(self) -> _Branches:
        return (
            _sort_elements(self.added),
            _sort_elements(self.modified),
            _sort_elements(self.removed),
        )


def _sort_elements(fields: FieldSet) -> FieldSet | None:
    if len(fields) < 2:
        return fields or None
    return {element: fields[element] for element in sort_elements(fields)}
