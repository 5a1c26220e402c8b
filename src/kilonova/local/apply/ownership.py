"""Which fields a value sets.

There are two answers. Whoever creates a value owns every step of it, maps and lists
included (`created`, `created_object`); whoever applies a value owns its leaves and the items
of its lists, as far as they are named (`field_set`).
"""

from functools import lru_cache
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apply.elements import field, in_order
from kilonova.local.apply.fields import LEAF, Fields
from kilonova.local.apply.items import BadItemError
from kilonova.local.apply.shapes import Shape


def created(shape: Shape, value: Any) -> Fields:
    """The branch of all paths of a value that was not there before."""
    if not value:
        return LEAF
    kind = value.__class__
    if kind is dict and shape.granular:
        plan = shape.plans[tuple(value)]
        if plan is None:
            return _created_fields(shape, value)
        template, splitting = plan
        if not splitting:
            return template
        result = template.copy()
        for name, step, child in splitting:
            result[step] = created(child, value[name])
        return result
    if kind is list and shape.associative:
        return _created_items(shape, value)
    return LEAF


def _created_fields(shape: Shape, value: JsonObject) -> Fields:
    if shape.plain:
        return {".": LEAF, **{field(name): LEAF for name in sorted(value)}}
    result: Fields = {".": LEAF}
    for name in sorted(value):
        step, child = shape.steps[name]
        result[step] = created(child, value[name]) if child.splits else LEAF
    return result


def _created_items(shape: Shape, items: list[Any]) -> Fields:
    found: Fields = {".": LEAF}
    child = shape.item
    step_of = shape.item_step
    for item in items:
        try:
            step = step_of(item)
        except BadItemError:
            continue
        # Of items that share a key, only the key has an owner.
        found[step] = LEAF if step in found else created(child, item)
    return {step: found[step] for step in in_order(found)} if len(found) > 2 else found


def created_object(shape: Shape, obj: JsonObject) -> Fields:
    """The set of fields that a new object of the kind sets."""
    if shape.built_in:
        return _created_over(shape, obj, _initial(shape))
    return {step: branch for step, branch in created(shape, obj).items() if step != "."}


@lru_cache(maxsize=1024)
def _initial(shape: Shape) -> JsonObject:
    return shape.initial()


def _created_over(shape: Shape, value: JsonObject, initial: JsonObject) -> Fields:
    """The branch of what differs from the initial value, without the path to it."""
    result: Fields = {}
    for name in sorted(value):
        step, child = shape.steps[name]
        item = value[name]
        if name not in initial:
            # A null there is how a time that is not set is written.
            if item is not None:
                result[step] = created(child, item)
            continue
        before = initial[name]
        if item == before:
            continue
        kind = item.__class__
        if not item or not (child.granular if kind is dict else child.associative):
            result[step] = LEAF
            continue
        if kind is dict:
            below = _created_over(child, item, before or {})
        else:
            below = {key: each for key, each in created(child, item).items() if key != "."}
        if below:
            result[step] = below
    return result


def field_set(shape: Shape, obj: JsonObject) -> Fields:
    """The set of fields that an applied object names."""
    return _named_fields(shape, obj)


def _named_fields(shape: Shape, value: JsonObject) -> Fields:
    result: Fields = {}
    steps = shape.steps
    for name in sorted(value):
        step, child = steps[name]
        item = value[name]
        # An empty map or null is named as such; an empty list has no items to name.
        below = LEAF if item is None or item == {} else _named(child, item)
        # Steps are kept of declared fields alone; others are members whatever they hold.
        if name not in steps:
            below = {".": LEAF, **below} if below else LEAF
        if below is not None:
            result[step] = below
    return result


def _named(shape: Shape, value: Any) -> Fields | None:
    """The branch of a value, without the path to it unless it is a leaf; None if empty."""
    kind = value.__class__
    if kind is dict and shape.granular:
        return _named_fields(shape, value) or None
    if kind is list and shape.associative:
        return _named_items(shape, value) or None
    return LEAF


def _named_items(shape: Shape, items: list[Any]) -> Fields:
    found: Fields = {}
    child = shape.item
    for item in items:
        try:
            step = shape.item_step(item)
        except BadItemError:
            continue
        below = LEAF if step in found else _named(child, item)
        found[step] = {".": LEAF, **below} if below else LEAF
    return {step: found[step] for step in in_order(found)}
