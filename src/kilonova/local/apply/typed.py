"""Checking that an applied object is of its schema, with the words of Kubernetes."""

from typing import Any, TypeAlias

from kilonova.api.json import JsonObject
from kilonova.local.apply.elements import shown
from kilonova.local.apply.items import BadItemError
from kilonova.local.apply.shapes import Shape
from kilonova.local.errors import ApiError
from kilonova.local.patch.values import as_go, go_type


def check_applied(shape: Shape, applied: JsonObject) -> None:
    """Raise what Kubernetes answers if the object does not fit the shape."""
    messages = [f"{path}: {text}" if path else text for path, text in _problems(shape, applied)]
    if not messages:
        return
    summary = messages[0] if len(messages) == 1 else "\n  ".join(["errors:", *messages])
    raise misfit("patch", applied, summary)


def misfit(which: str, obj: JsonObject, detail: str) -> ApiError:
    """The answer for an object, the "patch" or the "live" one, that is not of its schema."""
    return ApiError(500, "", f"failed to create typed {which} object ({_described(obj)}): {detail}")


def _described(obj: JsonObject) -> str:
    metadata: JsonObject = obj.get("metadata") or {}
    version = str(obj.get("apiVersion", ""))
    qualified = version if "/" in version else f"/{version}"
    return (
        f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; "
        f"{qualified}, Kind={obj.get('kind', '')}"
    )


_Problems: TypeAlias = list[tuple[str, str]]
"""Paths and what is wrong there."""

_NONE: _Problems = []


def _problems(shape: Shape, value: Any) -> _Problems:
    kind = value.__class__
    if kind is dict:
        if shape.is_map:
            return _field_problems(shape, value)
    elif kind is list:
        if shape.is_list:
            return _item_problems(shape, value)
    elif value is None or (shape.is_scalar and kind in _ACCEPTED[shape.scalar_type]):
        return _NONE
    return [("", _mismatch(shape, value))]


def _field_problems(shape: Shape, value: JsonObject) -> _Problems:
    found: _Problems = _NONE
    steps = shape.steps
    for name, item in value.items():
        step, child = steps[name]
        # Steps are kept of declared fields alone.
        if name not in steps and not shape.open:
            return [*found, (shown(step), "field not declared in schema")]
        if problems := _problems(child, item):
            found = [*found, *((shown(step) + path, text) for path, text in problems)]
    return found


def _item_problems(shape: Shape, items: list[Any]) -> _Problems:
    found: _Problems = []
    seen: set[str] = set()
    for position, item in enumerate(items):
        step = f"i:{position}"
        if shape.associative:
            try:
                step = shape.item_step(item)
            except BadItemError as error:
                return [*found, ("", f"element {position}: {error}")]
            if step in seen:
                found.append(("", f"duplicate entries for key {shown(step)}"))
            seen.add(step)
        if problems := _problems(shape.item, item):
            found += [(shown(step) + path, text) for path, text in problems]
    return found


_ACCEPTED: dict[str, frozenset[type]] = {
    "numeric": frozenset({int, float}),
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "": frozenset({int, float, str, bool}),
}


def _mismatch(shape: Shape, value: Any) -> str:
    """What the shape would have, of the sorts of value that it takes."""
    if shape.is_map:
        return f"expected map, got &{{{as_go(value)}}}"
    if not shape.is_scalar:
        return f"expected list, got &{{{as_go(value)}}}"
    match shape.scalar_type:
        case "numeric":
            return f"expected numeric (int or float), got {go_type(value)}"
        case "string":
            return f"expected string, got &value.valueUnstructured{{Value:{as_go(value)}}}"
        case "boolean":
            return f"expected boolean, got &{{{as_go(value)}}}"
        case _:
            return f"expected any scalar, got &{{{as_go(value)}}}"
