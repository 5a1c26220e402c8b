"""Sets of field paths, in the form in which objects carry them (FieldsV1).

A set is a tree of steps (`kilonova.local.apply.elements`). An empty tree below a step says
that the path to it is in the set; a tree that is not empty says so by a `.` beside the
steps. So `{"f:spec": {".": {}, "f:replicas": {}}}` has the paths `.spec` and
`.spec.replicas`, and the empty set is `{}`.

Sets are never changed once built: results share branches with what they were made of.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast

from kilonova.local.apply.elements import canonical, field, in_order

Fields: TypeAlias = dict[str, Any]
"""A set of field paths, or a branch of one."""

Path: TypeAlias = tuple[str, ...]

Filter: TypeAlias = Callable[[Fields], Fields]
"""What is left of a set when the fields that a request cannot change are taken away."""

LEAF: Fields = {}
"""The branch that holds the path to it and nothing else."""


def from_paths(*paths: Path) -> Fields:
    """The set of these paths."""
    tree: Fields = {}
    for path in paths:
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node["."] = LEAF
    return _tidied(tree)


def _tidied(tree: Fields) -> Fields:
    return {
        step: LEAF if step == "." or branch.keys() == {"."} else _tidied(branch)
        for step in in_order(tree)
        for branch in (tree[step],)
    }


def ignoring(*paths: str) -> Filter:
    """A filter that takes away these fields (`metadata.labels`) and all below them."""
    ignored = from_paths(*(tuple(field(name) for name in path.split(".")) for path in paths))
    return lambda fields: without_branches(fields, ignored)


def only(*names: str) -> Filter:
    """A filter that leaves nothing but these fields of the root."""
    kept = frozenset(field(name) for name in names)
    return lambda fields: {step: fields[step] for step in fields if step in kept}


def contains(fields: Fields, path: Path) -> bool:
    """Whether the path is in the set."""
    node = fields
    for step in path:
        branch = node.get(step)
        if branch is None:
            return False
        node = branch
    return is_member(node)


def is_member(branch: Fields) -> bool:
    """Whether the path to the branch is itself in the set."""
    return not branch or "." in branch


def paths(fields: Fields, prefix: Path = ()) -> Iterator[Path]:
    """All paths of the set, those of a level before those below it."""
    steps = [step for step in in_order(fields) if step != "."]
    for step in steps:
        if is_member(fields[step]):
            yield (*prefix, step)
    for step in steps:
        if fields[step]:
            yield from paths(fields[step], (*prefix, step))


def union(left: Fields, right: Fields) -> Fields:
    """The paths that are in either."""
    if not right or left is right:
        return left
    if not left:
        return right
    return _union(left, right)


def _union(left: Fields, right: Fields) -> Fields:
    result = dict(left)
    grown = False
    for step, branch in right.items():
        mine = left.get(step)
        if mine is None:
            result[step] = branch
            grown = True
        elif mine is branch or step == ".":
            continue
        elif not mine or not branch:
            # One side is the path alone: the other keeps its branches and gains the path.
            bigger = mine or branch
            result[step] = bigger if is_member(bigger) else {".": LEAF, **bigger}
        else:
            result[step] = _union(mine, branch)
    return {step: result[step] for step in in_order(result)} if grown else result


def difference(left: Fields, right: Fields) -> Fields:
    """The paths of the left that are not in the right. Gives back `left` if that is all."""
    result: Fields | None = None
    for step in right.keys() & left.keys():
        if step == ".":
            continue
        mine, theirs = left[step], right[step]
        rest = _difference_below(mine, theirs)
        if rest is mine:
            continue
        if result is None:
            result = dict(left)
        if rest is None:
            del result[step]
        else:
            result[step] = rest
    return left if result is None else result


def _difference_below(mine: Fields, theirs: Fields) -> Fields | None:
    taken = is_member(theirs)
    if not mine:
        return None if taken else mine
    rest = difference(mine, theirs) if theirs else mine
    if taken and "." in rest:
        rest = {step: branch for step, branch in rest.items() if step != "."}
    return _pruned(rest)


def _pruned(rest: Fields) -> Fields | None:
    """What is left of a branch that was not empty, or None if that is nothing."""
    if len(rest) == 1 and "." in rest:
        return LEAF
    return rest or None


def without_branches(left: Fields, right: Fields) -> Fields:
    """The paths of the left that are neither in the right nor below a path in it."""
    result: Fields | None = None
    for step in right.keys() & left.keys():
        if step == ".":
            continue
        mine, theirs = left[step], right[step]
        if is_member(theirs):
            rest = None
        elif not mine:
            continue
        else:
            rest = _pruned(without_branches(mine, theirs))
        if rest is mine:
            continue
        if result is None:
            result = dict(left)
        if rest is None:
            del result[step]
        else:
            result[step] = rest
    return left if result is None else result


def intersection(left: Fields, right: Fields) -> Fields:
    """The paths that are in both."""
    result: Fields = {}
    for step, mine in left.items():
        theirs = right.get(step)
        if theirs is None or step == ".":
            continue
        both = is_member(mine) and is_member(theirs)
        below = intersection(mine, theirs) if mine and theirs else LEAF
        if below:
            result[step] = {".": LEAF, **below} if both else below
        elif both:
            result[step] = LEAF
    return result


def leaves(fields: Fields) -> Fields:
    """The paths of the set that have no path below them in it."""
    return {
        step: leaves(branch) if branch else LEAF for step, branch in fields.items() if step != "."
    }


def decoded(source: Any) -> Fields:
    """A set as a client sent it, made canonical. Raises `ValueError` if it is none."""
    if source is None:
        return {}
    if not isinstance(source, dict):
        raise ValueError("a set of fields is an object")
    branch = _decoded(cast(Fields, source))
    branch.pop(".", None)
    return branch


def _decoded(source: Fields) -> Fields:
    tree: Fields = {}
    for step, below in source.items():
        if step == ".":
            tree["."] = LEAF
            continue
        name = canonical(step)
        if name is None:
            continue
        if not isinstance(below, dict):
            raise ValueError(f"what is below {step!r} is not an object")
        branch = _decoded(cast(Fields, below))
        tree[name] = LEAF if branch.keys() == {"."} else branch
    return {step: tree[step] for step in in_order(tree)}


def shared(sets: Iterable[Fields]) -> Fields:
    """The union of them all."""
    result: Fields = {}
    for each in sets:
        result = union(result, each)
    return result
