"""Merging an applied object into a live one, and taking fields out of an object.

Items of a keyed list stand in the order in which they were applied; items that only the
live object has stay where they were among the items that both have. Results share nothing
with the live object that can change.
"""

from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apply.fields import LEAF, Fields, is_member
from kilonova.local.apply.items import BadItemError
from kilonova.local.apply.shapes import Shape
from kilonova.local.patch import copied


def merged(shape: Shape, live: JsonObject, applied: JsonObject) -> JsonObject:
    """The live object with all that is applied set in it."""
    result: JsonObject = {}
    for name, value in live.items():
        if name in applied:
            _, child = shape.steps[name]
            result[name] = _merged_value(child, value, applied[name])
        else:
            result[name] = copied(value)
    for name, value in applied.items():
        if name not in live:
            result[name] = copied(value)
    return result


def _merged_value(shape: Shape, live: Any, applied: Any) -> Any:
    if not live or not shape.splits:
        return copied(applied)
    before = live.__class__
    after = applied.__class__
    if before is dict and shape.granular and (after is dict or applied is None):
        return merged(shape, live, applied or {})
    # Null is no list where the schema would take a map as well.
    listed = after is list or (applied is None and not shape.is_map)
    if before is list and shape.associative and listed:
        return _merged_items(shape, live, applied or [])
    return copied(applied)


def _merged_items(shape: Shape, live: list[Any], applied: list[Any]) -> list[Any]:
    lefts = [(shape.item_step(item), item) for item in live]
    rights = [(shape.item_step(item), item) for item in applied]
    partners: dict[str, Any] = {}
    for step, item in lefts:
        # Of live items that share a key none is merged with.
        partners[step] = None if step in partners else item
    wanted = {step for step, _ in rights}
    shared = [step for step, _ in rights if step in partners]
    shared.reverse()
    done: set[str] = set()
    result: list[Any] = []

    def take(step: str, item: Any) -> None:
        done.add(step)
        result.append(_merged_value(shape.item, partners.get(step), item))
        if shared and shared[-1] == step:
            shared.pop()

    left = right = 0
    while left < len(lefts) or right < len(rights):
        if left < len(lefts):
            step, item = lefts[left]
            if right < len(rights):
                if step == rights[right][0]:
                    take(*rights[right])
                    left += 1
                    right += 1
                    continue
                if step in wanted and shared and shared[-1] != step:
                    left += 1
                    continue
            if step not in wanted:
                result.append(copied(item))
                left += 1
                continue
            if step in done:
                left += 1
        if right < len(rights):
            take(*rights[right])
            right += 1
    return result


def without(shape: Shape, obj: JsonObject, fields: Fields) -> JsonObject:
    """The object without these fields, each with all that is below it."""
    return _without_fields(shape, obj, fields) or {}


def _without_value(shape: Shape, value: Any, fields: Fields) -> Any:
    """What is left of a value; None if nothing is."""
    kind = value.__class__
    if kind is dict:
        return _without_fields(shape, value, fields) if shape.granular else None
    if kind is list:
        return _without_items(shape, value, fields) if shape.associative else None
    return value


def _without_fields(shape: Shape, value: JsonObject, fields: Fields) -> JsonObject | None:
    result: JsonObject = {}
    for name, item in value.items():
        step, child = shape.steps[name]
        branch = fields.get(step)
        if branch is None:
            result[name] = item
        elif not is_member(branch):
            result[name] = _without_value(child, item, branch)
    return result or None


def _without_items(shape: Shape, items: list[Any], fields: Fields) -> list[Any] | None:
    result: list[Any] = []
    for item in items:
        try:
            branch = fields.get(shape.item_step(item))
        except BadItemError:
            branch = None
        if branch is None:
            result.append(item)
        elif not is_member(branch):
            result.append(_without_value(shape.item, item, branch))
    return result or None


def with_named_parents(shape: Shape | None, fields: Fields) -> Fields:
    """The set with every declared field that leads to a path of it."""
    result: Fields = {}
    for step, branch in fields.items():
        if not branch:
            result[step] = branch
            continue
        child: Shape | None = None
        named = False
        if shape is not None and step[0] == "f" and shape.is_map:
            named = shape.declares(step[2:])
            child = shape.child(step[2:])
        elif shape is not None and step[0] == "k" and shape.is_list:
            child = shape.item
        below = with_named_parents(child, branch)
        if named and "." not in below:
            below = {".": LEAF, **below}
        result[step] = below
    return result
