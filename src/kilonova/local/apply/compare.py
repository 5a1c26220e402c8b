"""What changed between two objects, as sets of fields."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apply.elements import in_order
from kilonova.local.apply.fields import LEAF, Fields, Filter, union
from kilonova.local.apply.items import BadItemError
from kilonova.local.apply.ownership import created
from kilonova.local.apply.shapes import Shape
from kilonova.local.patch import same


class Comparison(msgspec.Struct, frozen=True):
    """The fields that the new object added, modified and removed."""

    added: Fields
    modified: Fields
    removed: Fields

    def filtered(self, keep: Filter | None) -> Comparison:
        """Without the fields that a request cannot change."""
        if keep is None:
            return self
        return Comparison(keep(self.added), keep(self.modified), keep(self.removed))

    def set(self) -> Fields:
        """The fields that have a new value."""
        return union(self.added, self.modified)


def compare(shape: Shape, old: JsonObject, new: JsonObject) -> Comparison:
    """The difference of two objects of a kind. Costs little where they are equal."""
    added, modified, removed = _changed_fields(shape, old, new)
    return Comparison(added or {}, modified or {}, removed or {})


_Branches: TypeAlias = tuple[Fields | None, Fields | None, Fields | None]
"""Added, modified and removed below a step; None where there is nothing."""

_MODIFIED: _Branches = (None, LEAF, None)


def _changed(shape: Shape, old: Any, new: Any) -> _Branches:
    """The changes from one value to another that differs."""
    before = old.__class__
    after = new.__class__
    if shape.granular and (before is dict or after is dict) and (old or new):
        branches = _changed_fields(
            shape, old if before is dict else {}, new if after is dict else {}
        )
    elif shape.associative and (before is list or after is list) and (old or new):
        branches = _changed_items(
            shape, old if before is list else [], new if after is list else []
        )
    else:
        return _MODIFIED
    if before is not after and old is not None and new is not None:
        # A value of one sort has taken the place of another.
        added, _, removed = branches
        return added, LEAF, removed
    return branches


def _changed_fields(shape: Shape, old: JsonObject, new: JsonObject) -> _Branches:
    collected = _Collected()
    loose = shape.loose
    for name, after in new.items():
        if name in old:
            before = old[name]
            if before is after or (same(before, after) if loose else before == after):
                continue
            step, child = shape.steps[name]
            collected.put(step, *_changed(child, before, after))
        else:
            step, child = shape.steps[name]
            collected.added[step] = created(child, after)
    for name in old.keys() - new.keys():
        step, child = shape.steps[name]
        collected.removed[step] = created(child, old[name])
    return collected.branches()


def _changed_items(shape: Shape, old: list[Any], new: list[Any]) -> _Branches:
    collected = _Collected()
    befores = _by_step(shape, old)
    afters = _by_step(shape, new)
    child = shape.item
    for step in befores.keys() | afters.keys():
        before = befores.get(step, _NONE)
        after = afters.get(step, _NONE)
        if len(before) == 1 == len(after):
            if not (same(before[0], after[0]) if child.loose else before[0] == after[0]):
                collected.put(step, *_changed(child, before[0], after[0]))
        elif len(before) > 1 and len(after) > 1:
            # Items that share a key are compared, and owned, together.
            if not same(before, after):
                collected.modified[step] = LEAF
        else:
            if before:
                collected.removed[step] = created(child, before[0]) if len(before) == 1 else LEAF
            if after:
                collected.added[step] = created(child, after[0]) if len(after) == 1 else LEAF
    return collected.branches()


_NONE: list[Any] = []


def _by_step(shape: Shape, items: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        try:
            found.setdefault(shape.item_step(item), []).append(item)
        except BadItemError:
            continue
    return found


class _Collected:
    """The changes of one level."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.added: Fields = {}
        self.modified: Fields = {}
        self.removed: Fields = {}

    def put(
        self, step: str, added: Fields | None, modified: Fields | None, removed: Fields | None
    ) -> None:
        if added is not None:
            self.added[step] = added
        if modified is not None:
            self.modified[step] = modified
        if removed is not None:
            self.removed[step] = removed

    def branches(self) -> _Branches:
        return _sorted(self.added), _sorted(self.modified), _sorted(self.removed)


def _sorted(fields: Fields) -> Fields | None:
    if len(fields) < 2:
        return fields or None
    return {step: fields[step] for step in in_order(fields)}
