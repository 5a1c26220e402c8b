"""Rules of a custom kind's schema, compiled: types, limits, formats, combinations.

The order of the rules and the words of the problems are those of Kubernetes' OpenAPI
validator. Each check also counts how much of a value it could match: where none of several
alternatives fits, the problems shown are those of the one that matched most.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, required
from kilonova.local.schema.formats import predicate
from kilonova.local.schema.limits import (
    ABSENT,
    Check,
    array_limits,
    enumeration,
    number_limits,
    object_limits,
    string_limits,
    unplaced,
    wrong_type_named,
)
from kilonova.local.schema.ondemand import OnDemand

_INT64 = range(-(1 << 63), 1 << 63)

_TYPES: dict[type, tuple[str, str]] = {
    bool: ("boolean", ""),
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
}
"""The type of a value, and the format that goes with it."""


_NONE: JsonObject = {}


def validator(source: JsonObject) -> Callable[[Any, Any], list[Problem]]:
    """What the schema has against a value, given the value that it replaces or `ABSENT`.

    A problem with a part that is as it was before is not held against the new value.
    """
    check = _compile(source)

    def validate(value: Any, old: Any) -> list[Problem]:
        problems: list[Problem] = []
        check(value, "", old, problems)
        if not problems or (old is not ABSENT and value == old):
            return []
        return list(dict.fromkeys(problems))

    return validate


def _compile(source: JsonObject) -> Check:
    types = _type_names(source)
    format = _enforced_format(source, types)
    check_type = _type_check(types, format)
    combine = _combinations(source)
    enum = enumeration(source)
    nullable = bool(source.get("nullable"))
    steps: dict[str, list[Check]] = {
        "string": [*string_limits(source, format), *enum],
        "integer": [*number_limits(source, types, format), *enum],
        "number": [*number_limits(source, types, format), *enum],
        "boolean": enum,
        "array": [*_array(source), *enum],
        "object": [*enum, *_object(source)],
    }

    def check(value: Any, path: str, old: Any, problems: list[Problem]) -> int:
        if value is None:
            if types and not nullable:
                problems.append(wrong_type_named(path, ",".join(types), "null"))
            for step in enum:
                step(value, path, old, problems)
            return 1
        type_name, type_format = _TYPES[value.__class__]
        if type_name == "integer" and value not in _INT64:
            type_name, type_format = _TYPES[float]
        matches = 2 + check_type(value, type_name, type_format, path, problems)
        if combine is not None:
            matches += combine(value, path, old, problems)
        for step in steps[type_name]:
            matches += step(value, path, old, problems)
        return matches

    return check


def _type_names(source: JsonObject) -> tuple[str, ...]:
    if source.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (source["type"],) if source.get("type") else ()


def _enforced_format(source: JsonObject, types: tuple[str, ...]) -> str:
    format: str = source.get("format", "")
    only = types[0] if len(types) == 1 else ""
    if only in ("", "string"):
        known = predicate(format) is not None
    else:
        known = format in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(
            only, ()
        )
    return format if known else ""


def _type_check(
    types: tuple[str, ...], format: str
) -> Callable[[Any, str, str, str, list[Problem]], int]:
    if not types and not format:
        return lambda value, name, its_format, path, problems: 0
    accepts = set(types)
    if "number" in accepts:
        accepts.add("integer")
    numeric = not accepts.isdisjoint(("integer", "number"))

    def check(value: Any, name: str, its_format: str, path: str, problems: list[Problem]) -> int:
        if name in accepts:
            return 2
        if name == "number" and "integer" in accepts and _is_whole(value):
            return 2
        textual = name in ("string", "array")
        if format and not textual and its_format != format:
            problems.append(wrong_type_named(path, format, its_format))
            return 1
        if format and textual and not numeric:
            return 2
        problems.append(wrong_type_named(path, ",".join(types), name))
        return 1

    return check


def _is_whole(value: float) -> bool:
    """Whether a number with a decimal point is an integer, and exactly so."""
    return abs(value) < 1 << 53 and float(value).is_integer()


def _object(source: JsonObject) -> list[Check]:
    limits = object_limits(source)
    known: dict[str, JsonObject] = source.get("properties", {})
    fields = OnDemand(known, _compile)
    wanted: Sequence[str] = source.get("required", ())
    values: Any = source.get("additionalProperties")
    additional = _compile(cast(JsonObject, values)) if isinstance(values, dict) else None
    if not limits and not known and not wanted and additional is None:
        return []

    def check(value: Any, path: str, old: Any, problems: list[Problem]) -> int:
        matches = 1
        for limit in limits:
            limit(value, path, old, problems)
        before: dict[str, Any] = _NONE if type(old) is not dict else cast(JsonObject, old)
        if additional is not None:
            for key, inner in value.items():
                if key not in known:
                    matches += _inner(
                        additional, inner, f"{path}.{key}", before.get(key, ABSENT), problems
                    )
        for name in known:
            if name in value and (field := fields[name]) is not None:
                place = f"{path}.{name}" if path else name
                matches += _inner(field, value[name], place, before.get(name, ABSENT), problems)
        for name in wanted:
            if name not in value:
                problems.append(required(f"{path}.{name}" if path else name))
        return matches

    return [check]


def _array(source: JsonObject) -> list[Check]:
    limits = array_limits(source)
    items: Any = source.get("items")
    item = _compile(cast(JsonObject, items)) if isinstance(items, dict) else None
    keys: Sequence[str] = (
        source.get("x-kubernetes-list-map-keys", ())
        if source.get("x-kubernetes-list-type") == "map"
        else ()
    )
    if not limits and item is None:
        return []

    def check(value: Any, path: str, old: Any, problems: list[Problem]) -> int:
        matches = 2
        if item is not None:
            before = _by_key(old, keys)
            for index, inner in enumerate(value):
                was = before.get(_key(inner, keys), ABSENT) if before else ABSENT
                matches += _inner(item, inner, f"{path}[{index}]", was, problems)
        for limit in limits:
            limit(value, path, old, problems)
        return matches

    return [check]


def _inner(check: Check, value: Any, path: str, old: Any, problems: list[Problem]) -> int:
    start = len(problems)
    matches = check(value, path, old, problems)
    if len(problems) > start and old is not ABSENT and value == old:
        del problems[start:]
    return matches


def _by_key(old: Any, keys: Sequence[str]) -> dict[Any, Any]:
    """The items of a list that has keys: those of other lists have no identity."""
    items: list[Any] = old
    if not keys or type(items) is not list:
        return {}
    return {key: item for item in items if (key := _key(item, keys)) is not None}


def _key(item: Any, keys: Sequence[str]) -> tuple[str, ...] | None:
    fields: dict[str, Any] = item
    if type(fields) is not dict:
        return None
    return tuple(repr(fields.get(key)) for key in keys)


def _combinations(source: JsonObject) -> Check | None:
    any_of = [_compile(each) for each in source.get("anyOf", ())]
    one_of = [_compile(each) for each in source.get("oneOf", ())]
    all_of = [_compile(each) for each in source.get("allOf", ())]
    none_of = _compile(source["not"]) if source.get("not") is not None else None
    if not (any_of or one_of or all_of or none_of):
        return None

    def check(value: Any, path: str, old: Any, problems: list[Problem]) -> int:
        matches = 2
        if any_of:
            fitting, best, count = _alternatives(any_of, value, path, old)
            if not fitting:
                problems.append(unplaced(f'"{path}" must validate at least one schema (anyOf)'))
                problems.extend(best)
            matches += count
        if one_of:
            fitting, best, count = _alternatives(one_of, value, path, old)
            if fitting != 1:
                found = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
                problems.append(
                    unplaced(f'"{path}" must validate one and only one schema (oneOf). {found}')
                )
                problems.extend(best)
            matches += count
        if all_of:
            failed = 0
            for each in all_of:
                start = len(problems)
                matches += each(value, path, old, problems)
                failed += len(problems) > start
            if failed:
                none = ". None validated" if failed == len(all_of) else ""
                problems.append(unplaced(f'"{path}" must validate all the schemas (allOf){none}'))
        if none_of is not None:
            refused: list[Problem] = []
            none_of(value, path, old, refused)
            if not refused:
                problems.append(unplaced(f'"{path}" must not validate the schema (not)'))
        return matches

    return check


def _alternatives(
    checks: list[Check], value: Any, path: str, old: Any
) -> tuple[int, list[Problem], int]:
    """How many fit; else the problems of the nearest one; and how much that one matched."""
    fitting = 0
    first = 0
    best: list[Problem] = []
    most = -1
    for check in checks:
        found: list[Problem] = []
        matches = check(value, path, old, found)
        if not found:
            first = first if fitting else matches
            fitting += 1
        elif matches > most:
            best, most = found, matches
    return (fitting, [], first) if fitting else (0, best, most)
