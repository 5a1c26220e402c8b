"""The fields that a value sets.

There are two sets. The creator of a value owns every path of it, maps and lists included
(`created_fields`, `created_object_fields`); the applier of a value owns its leaves and the items of
its lists (`applied_fields`).
"""

from functools import lru_cache
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.field_manager.field_sets import LEAF, FieldSet
from kilonova.local.apiserver.field_manager.list_items import ListItemError
from kilonova.local.apiserver.field_manager.merge_schema import MergeSchema
from kilonova.local.apiserver.field_manager.path_elements import field_element, sort_elements


def created_fields(schema: MergeSchema, value: Any) -> FieldSet:
    """The branch with all paths of a new value."""
    if not value:
        return LEAF
    kind = value.__class__
    if kind is dict and schema.granular:
        template = schema.templates[tuple(value)]
        if template is None:
            return _created_map_fields(schema, value)
        branch, split_fields = template
        if not split_fields:
            return branch
        result = branch.copy()
        for name, element, child in split_fields:
            result[element] = created_fields(child, value[name])
        return result
    if kind is list and schema.associative:
        return _created_list_fields(schema, value)
    return LEAF


def _created_map_fields(schema: MergeSchema, value: JsonObject) -> FieldSet:
    if schema.is_scalar_map:
        return {".": LEAF, **{field_element(name): LEAF for name in sorted(value)}}
    result: FieldSet = {".": LEAF}
    for name in sorted(value):
        element, child = schema.elements[name]
        result[element] = created_fields(child, value[name]) if child.is_split else LEAF
    return result


def _created_list_fields(schema: MergeSchema, items: list[Any]) -> FieldSet:
    found: FieldSet = {".": LEAF}
    child = schema.item_schema
    element_of = schema.item_element
    for item in items:
        try:
            element = element_of(item)
        except ListItemError:
            continue
        # Of items with the same key, only the key is owned.
        found[element] = LEAF if element in found else created_fields(child, item)
    return (
        {element: found[element] for element in sort_elements(found)} if len(found) > 2 else found
    )


def created_object_fields(schema: MergeSchema, obj: JsonObject) -> FieldSet:
    """The set of fields that a new object of the kind sets."""
    if schema.built_in:
        return _created_beyond_zero(schema, obj, _zero_object(schema))
    return {
        element: branch for element, branch in created_fields(schema, obj).items() if element != "."
    }


@lru_cache(maxsize=1024)
def _zero_object(schema: MergeSchema) -> JsonObject:
    return schema.zero_object()


def _created_beyond_zero(schema: MergeSchema, value: JsonObject, initial: JsonObject) -> FieldSet:
    """The branch of what differs from the initial value, without the path to it."""
    result: FieldSet = {}
    for name in sorted(value):
        element, child = schema.elements[name]
        item = value[name]
        if name not in initial:
            # A time that is not set is written as null.
            if item is not None:
                result[element] = created_fields(child, item)
            continue
        before = initial[name]
        if item == before:
            continue
        kind = item.__class__
        if not item or not (child.granular if kind is dict else child.associative):
            result[element] = LEAF
            continue
        if kind is dict:
            child_fields = _created_beyond_zero(child, item, before or {})
        else:
            child_fields = {
                key: each for key, each in created_fields(child, item).items() if key != "."
            }
        if child_fields:
            result[element] = child_fields
    return result


def applied_fields(schema: MergeSchema, obj: JsonObject) -> FieldSet:
    """The set of fields that an applied object names."""
    return _applied_map_fields(schema, obj)


def _applied_map_fields(schema: MergeSchema, value: JsonObject) -> FieldSet:
    result: FieldSet = {}
    elements = schema.elements
    for name in sorted(value):
        element, child = elements[name]
        item = value[name]
        # An empty map or null is a leaf; an empty list has no items.
        child_fields = LEAF if item is None or item == {} else _applied_value_fields(child, item)
        # Elements are cached for declared fields only; others are members whatever their value is.
        if name not in elements:
            child_fields = {".": LEAF, **child_fields} if child_fields else LEAF
        if child_fields is not None:
            result[element] = child_fields
    return result


def _applied_value_fields(schema: MergeSchema, value: Any) -> FieldSet | None:
    """The branch of a value, without the path to it unless it is a leaf; None if empty."""
    kind = value.__class__
    if kind is dict and schema.granular:
        return _applied_map_fields(schema, value) or None
    if kind is list and schema.associative:
        return _applied_list_fields(schema, value) or None
    return LEAF


def _applied_list_fields(schema: MergeSchema, items: list[Any]) -> FieldSet:
    found: FieldSet = {}
    child = schema.item_schema
    for item in items:
        try:
            element = schema.item_element(item)
        except ListItemError:
            continue
        child_fields = LEAF if element in found else _applied_value_fields(child, item)
        found[element] = {".": LEAF, **child_fields} if child_fields else LEAF
    return {element: found[element] for element in sort_elements(found)}
