"""Checking that an applied object is of its schema, with the words of Kubernetes."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apply.elements import field, shown
from kilonova.local.apply.shapes import BadItemError, Shape
from kilonova.local.errors import ApiError
from kilonova.local.patch.values import as_go, go_type


def check_applied(shape: Shape, applied: JsonObject) -> None:
    """Raise what Kubernetes answers if the object does not fit the shape."""
    messages = [f"{path}: {text}" if path else text for path, text in _problems(shape, applied)]
    if not messages:
        return
    summary = messages[0] if len(messages) == 1 else "\n  ".join(["errors:", *messages])
    raise ApiError(
        500, "", f"failed to create typed patch object ({_described(applied)}): {summary}"
    )


def _described(obj: JsonObject) -> str:
    metadata: JsonObject = obj.get("metadata") or {}
    version = str(obj.get("apiVersion", ""))
    qualified = version if "/" in version else f"/{version}"
    return (
        f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; "
        f"{qualified}, Kind={obj.get('kind', '')}"
    )


def _problems(shape: Shape, value: Any) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    kind = value.__class__
    if kind is dict and shape.is_map:
        yield from _field_problems(shape, value)
    elif kind is list and shape.is_list:
        yield from _item_problems(shape, value)
    elif kind not in (dict, list) and shape.is_scalar:
        yield from _scalar_problems(shape, value)
    elif shape.is_map:
        yield "", f"expected map, got &{{{as_go(value)}}}"
    elif shape.is_scalar:
        yield from _scalar_problems(shape, value)
    else:
        yield "", f"expected list, got &{{{as_go(value)}}}"


def _field_problems(shape: Shape, value: JsonObject) -> Iterator[tuple[str, str]]:
    for name, item in value.items():
        prefix = shown(field(name))
        if not shape.declares(name) and not shape.open:
            yield prefix, "field not declared in schema"
            return
        for path, text in _problems(shape.child(name), item):
            yield prefix + path, text


def _item_problems(shape: Shape, items: list[Any]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for position, item in enumerate(items):
        if shape.associative:
            try:
                step = shape.item_step(item)
            except BadItemError as error:
                yield "", f"element {position}: {error}"
                return
            if step in seen:
                yield "", f"duplicate entries for key {shown(step)}"
            seen.add(step)
        else:
            step = f"i:{position}"
        for path, text in _problems(shape.item, item):
            yield shown(step) + path, text


def _scalar_problems(shape: Shape, value: Any) -> Iterator[tuple[str, str]]:
    match shape.scalar_type:
        case "numeric" if value.__class__ not in (int, float):
            yield "", f"expected numeric (int or float), got {go_type(value)}"
        case "string" if value.__class__ is not str:
            yield "", f"expected string, got &value.valueUnstructured{{Value:{as_go(value)}}}"
        case "boolean" if value.__class__ is not bool:
            yield "", f"expected boolean, got &{{{as_go(value)}}}"
        case "" if value.__class__ in (dict, list):
            yield "", f"expected any scalar, got &{{{as_go(value)}}}"
        case _:
            return
