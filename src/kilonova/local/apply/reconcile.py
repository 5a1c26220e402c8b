"""Fitting sets of fields to a schema that has changed since they were written."""

from kilonova.local.apply.fields import LEAF, Fields
from kilonova.local.apply.shapes import Shape


def reconciled(shape: Shape, fields: Fields) -> Fields:
    """The set, with what is now atomic owned as a whole.

    The other way, from atomic to granular, needs nothing: the owner keeps what it had.
    """
    return _reconciled_map(shape, fields)


def _reconciled(shape: Shape, branch: Fields) -> Fields:
    if not branch:
        return branch
    if shape.is_map:
        if not shape.granular:
            return LEAF
        return _reconciled_map(shape, branch)
    if shape.is_list:
        if not shape.associative:
            return LEAF
        return _reconciled_below(branch, {step: shape.item for step in branch if step != "."})
    return branch


def _reconciled_map(shape: Shape, branch: Fields) -> Fields:
    known = {
        step: shape.child(step[2:])
        for step in branch
        if step[0] == "f" and (shape.declares(step[2:]) or shape.open)
    }
    return _reconciled_below(branch, known)


def _reconciled_below(branch: Fields, shapes: dict[str, Shape]) -> Fields:
    result: Fields | None = None
    for step, shape in shapes.items():
        below = branch[step]
        fitted = _reconciled(shape, below)
        if fitted is not below:
            if result is None:
                result = dict(branch)
            result[step] = fitted
    return branch if result is None else result
