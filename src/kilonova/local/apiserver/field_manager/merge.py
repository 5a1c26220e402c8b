"""Merging an applied object into the live one, and removing fields from an object.

Items of an associative list are in the order in which they were applied; items that only the live
object has stay in position relative to the items that both have. Results share no mutable value
with the live object.
"""

from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.patch import deep_copy
from kilonova.local.apiserver.field_manager.field_sets import LEAF, FieldSet, is_member
from kilonova.local.apiserver.field_manager.list_items import ListItemError
from kilonova.local.apiserver.field_manager.merge_schema import MergeSchema


def merge_objects(schema: MergeSchema, live: JsonObject, applied: JsonObject) -> JsonObject:
    """The live object with all applied fields set."""
    result: JsonObject = {}
    for name, value in live.items():
        if name in applied:
            _, child = schema.elements[name]
            result[name] = _merge_values(child, value, applied[name])
        else:
            result[name] = deep_copy(value)
    for name, value in applied.items():
        if name not in live:
            result[name] = deep_copy(value)
    return result


def _merge_values(schema: MergeSchema, live: Any, applied: Any) -> Any:
    if not live or not schema.is_split:
        return deep_copy(applied)
    before = live.__class__
    after = applied.__class__
    if before is dict and schema.granular and (after is dict or applied is None):
        return merge_objects(schema, live, applied or {})
    # Null is not a list where the schema also allows a map.
    is_list = after is list or (applied is None and not schema.is_map)
    if before is list and schema.associative and is_list:
        return _merge_lists(schema, live, applied or [])
    return deep_copy(applied)


def _merge_lists(schema: MergeSchema, live: list[Any], applied: list[Any]) -> list[Any]:
    live_items = [(schema.item_element(item), item) for item in live]
    applied_items = [(schema.item_element(item), item) for item in applied]
    live_by_element: dict[str, Any] = {}
    for element, item in live_items:
        # Live items with a duplicate key are not merged with.
        live_by_element[element] = None if element in live_by_element else item
    applied_elements = {element for element, _ in applied_items}
    shared = [element for element, _ in applied_items if element in live_by_element]
    shared.reverse()
    done: set[str] = set()
    result: list[Any] = []

    def add_item(element: str, item: Any) -> None:
        done.add(element)
        result.append(_merge_values(schema.item_schema, live_by_element.get(element), item))
        if shared and shared[-1] == element:
            shared.pop()

    left = right = 0
    while left < len(live_items) or right < len(applied_items):
        if left < len(live_items):
            element, item = live_items[left]
            if right < len(applied_items):
                if element == applied_items[right][0]:
                    add_item(*applied_items[right])
                    left += 1
                    right += 1
                    continue
                if element in applied_elements and shared and shared[-1] != element:
                    left += 1
                    continue
            if element not in applied_elements:
                result.append(deep_copy(item))
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(applied_items):
            add_item(*applied_items[right])
            right += 1
    return result


def remove_fields(schema: MergeSchema, obj: JsonObject, fields: FieldSet) -> JsonObject:
    """The object without these fields and all fields below them."""
    return _remove_from_map(schema, obj, fields) or {}


def _remove_from_value(schema: MergeSchema, value: Any, fields: FieldSet) -> Any:
    """The rest of a value; None if it is empty."""
    kind = value.__class__
    if kind is dict:
        return _remove_from_map(schema, value, fields) if schema.granular else None
    if kind is list:
        return _remove_from_list(schema, value, fields) if schema.associative else None
    return value


def _remove_from_map(schema: MergeSchema, value: JsonObject, fields: FieldSet) -> JsonObject | None:
    result: JsonObject = {}
    for name, item in value.items():
        element, child = schema.elements[name]
        branch = fields.get(element)
        if branch is None:
            result[name] = item
        elif not is_member(branch):
            result[name] = _remove_from_value(child, item, branch)
    return result or None


def _remove_from_list(schema: MergeSchema, items: list[Any], fields: FieldSet) -> list[Any] | None:
    result: list[Any] = []
    for item in items:
        try:
            branch = fields.get(schema.item_element(item))
        except ListItemError:
            branch = None
        if branch is None:
            result.append(item)
        elif not is_member(branch):
            result.append(_remove_from_value(schema.item_schema, item, branch))
    return result or None


def add_declared_parents(schema: MergeSchema | None, fields: FieldSet) -> FieldSet:
    """The set with every declared field that is a parent of one of its paths."""
    result: FieldSet = {}
    for element, branch in fields.items():
        if not branch:
            result[element] = branch
            continue
        child: MergeSchema | None = None
        is_declared = False
        if schema is not None and element[0] == "f" and schema.is_map:
            is_declared = schema.declares_field(element[2:])
            child = schema.field_schema(element[2:])
        elif schema is not None and element[0] == "k" and schema.is_list:
            child = schema.item_schema
        child_fields = add_declared_parents(child, branch)
        if is_declared and "." not in child_fields:
            child_fields = {".": LEAF, **child_fields}
        result[element] = child_fields
    return result
