"""Sets of field paths, in the FieldsV1 format (fieldpath.Set of structured-merge-diff).

A set is a tree of path elements (`path_elements`). An empty tree below an element means that the
path to it is in the set; in a tree that is not empty a `.` beside the elements does. So `{"f:spec":
{".": {}, "f:replicas": {}}}` has the paths `.spec` and `.spec.replicas`, and the empty set is `{}`.

Sets are immutable: results share branches with their operands.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast

from kilonova.local.apiserver.field_manager.path_elements import (
    canonical_element,
    field_element,
    sort_elements,
)

FieldSet: TypeAlias = dict[str, Any]
"""A set of field paths, or a branch of one."""

FieldPath: TypeAlias = tuple[str, ...]

FieldFilter: TypeAlias = Callable[[FieldSet], FieldSet]
"""Removes the fields that a request cannot change from a set."""

LEAF: FieldSet = {}
"""The branch that contains only the path to it."""


def field_set_from_paths(*paths: FieldPath) -> FieldSet:
    """The set of these paths."""
    tree: FieldSet = {}
    for path in paths:
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = LEAF
    return _normalize(tree)


def _normalize(tree: FieldSet) -> FieldSet:
    return {
        element: LEAF if element == "." or branch.keys() == {"."} else _normalize(branch)
        for element in sort_elements(tree)
        for branch in (tree[element],)
    }


def exclude_fields(*paths: str) -> FieldFilter:
    """A filter that removes these fields (`metadata.labels`) and all fields below them."""
    ignored = field_set_from_paths(
        *(tuple(field_element(name) for name in path.split(".")) for path in paths)
    )
    return lambda fields: without_branches(fields, ignored)


def include_fields(*names: str) -> FieldFilter:
    """A filter that removes all but these fields of the root."""
    kept_elements = frozenset(field_element(name) for name in names)
    return lambda fields: {
        element: fields[element] for element in fields if element in kept_elements
    }


def contains(fields: FieldSet, path: FieldPath) -> bool:
    """Whether the path is in the set."""
    node = fields
    for element in path:
        branch = node.get(element)
        if branch is None:
            return False
        node = branch
    return is_member(node)


def is_member(branch: FieldSet) -> bool:
    """Whether the path to the branch is itself in the set."""
    return not branch or "." in branch


def iterate_paths(fields: FieldSet, prefix: FieldPath = ()) -> Iterator[FieldPath]:
    """All paths of the set, those of a level before those below it."""
    elements = [element for element in sort_elements(fields) if element != "."]
    for element in elements:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in elements:
        if fields[element]:
            yield from iterate_paths(fields[element], (*prefix, element))


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths that are in either set."""
    if not right or left is right:
        return left
    if not left:
        return right
    return _union_branches(left, right)


def _union_branches(left: FieldSet, right: FieldSet) -> FieldSet:
    result = dict(left)
    is_changed = False
    for element, branch in right.items():
        left_branch = left.get(element)
        if left_branch is None:
            result[element] = branch
            is_changed = True
        elif left_branch is branch or element == ".":
            continue
        elif not left_branch or not branch:
            # One side is the path alone: the other keeps its branches and adds the path.
            branches = left_branch or branch
            result[element] = branches if is_member(branches) else {".": LEAF, **branches}
        else:
            result[element] = _union_branches(left_branch, branch)
    return {element: result[element] for element in sort_elements(result)} if is_changed else result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths of `left` that are not in `right`. Returns `left` itself if nothing is removed."""
    result: FieldSet | None = None
    for element in right.keys() & left.keys():
        if element == ".":
            continue
        left_branch, right_branch = left[element], right[element]
        rest = _difference_below(left_branch, right_branch)
        if rest is left_branch:
            continue
        if result is None:
            result = dict(left)
        if rest is None:
            del result[element]
        else:
            result[element] = rest
    return left if result is None else result


def _difference_below(left_branch: FieldSet, right_branch: FieldSet) -> FieldSet | None:
    is_removed = is_member(right_branch)
    if not left_branch:
        return None if is_removed else left_branch
    rest = difference(left_branch, right_branch) if right_branch else left_branch
    if is_removed and "." in rest:
        rest = {element: branch for element, branch in rest.items() if element != "."}
    return _drop_empty(rest)


def _drop_empty(rest: FieldSet) -> FieldSet | None:
    """The rest of a branch that was not empty, or None if it is empty now."""
    if len(rest) == 1 and "." in rest:
        return LEAF
    return rest or None


def without_branches(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths of `left` that are neither in `right` nor below a path in it."""
    result: FieldSet | None = None
    for element in right.keys() & left.keys():
        if element == ".":
            continue
        left_branch, right_branch = left[element], right[element]
        if is_member(right_branch):
            rest = None
        elif not left_branch:
            continue
        else:
            rest = _drop_empty(without_branches(left_branch, right_branch))
        if rest is left_branch:
            continue
        if result is None:
            result = dict(left)
        if rest is None:
            del result[element]
        else:
            result[element] = rest
    return left if result is None else result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths that are in both sets."""
    result: FieldSet = {}
    for element, left_branch in left.items():
        right_branch = right.get(element)
        if right_branch is None or element == ".":
            continue
        both = is_member(left_branch) and is_member(right_branch)
        common = intersection(left_branch, right_branch) if left_branch and right_branch else LEAF
        if common:
            result[element] = {".": LEAF, **common} if both else common
        elif both:
            result[element] = LEAF
    return result


def leaves(fields: FieldSet) -> FieldSet:
    """The paths of the set without a longer path in it."""
    return {
        element: leaves(branch) if branch else LEAF
        for element, branch in fields.items()
        if element != "."
    }


def decode_field_set(source: Any) -> FieldSet:
    """Decode a set sent by a client into canonical form. Raises `ValueError` if it is invalid."""
    if source is None:
        return {}
    if not isinstance(source, dict):
        raise ValueError("fieldsV1 must be an object")
    branch = _decode_branch(cast(FieldSet, source))
    branch.pop(".", None)
    return branch


def _decode_branch(source: FieldSet) -> FieldSet:
    tree: FieldSet = {}
    for element, value in source.items():
        if element == ".":
            tree["."] = LEAF
            continue
        name = canonical_element(element)
        if name is None:
            continue
        if not isinstance(value, dict):
            raise ValueError(f"value of {element!r} is not an object")
        branch = _decode_branch(cast(FieldSet, value))
        tree[name] = LEAF if branch.keys() == {"."} else branch
    return {element: tree[element] for element in sort_elements(tree)}


def union_all(sets: Iterable[FieldSet]) -> FieldSet:
    """The union of all sets."""
    result: FieldSet = {}
    for each in sets:
        result = union(result, each)
    return result
