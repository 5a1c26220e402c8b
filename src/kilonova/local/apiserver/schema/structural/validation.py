"""Validation of custom resources, compiled from their schema: types, limits, formats, junctors.

Order and messages are those of Kubernetes' OpenAPI validator. Each check also returns how much of a
value it matched: if none of several alternatives is valid, the errors of the one that matched most
are reported.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, required_value
from kilonova.local.apiserver.schema.lazy_fields import LazyCompiledFields
from kilonova.local.apiserver.schema.structural.formats import format_predicate
from kilonova.local.apiserver.schema.structural.value_checks import (
    ABSENT,
    ValueCheck,
    array_checks,
    enum_checks,
    error_without_path,
    number_checks,
    object_checks,
    string_checks,
    wrong_type_error,
)

_INT64 = range(-(1 << 63), 1 << 63)

_TYPES: dict[type, tuple[str, str]] = {
    bool: ("boolean", ""),
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
}
"""The type of a value, and its implied format."""


_NONE: JsonObject = {}


def compile_validator(source: JsonObject) -> Callable[[Any, Any], list[FieldError]]:
    """Compile the validation of a value, given the previous value or `ABSENT`.

    Errors in a part that is unchanged are ignored (ratcheting).
    """
    check = _compile_check(source)

    def validate(value: Any, old: Any) -> list[FieldError]:
        problems: list[FieldError] = []
        check(value, "", old, problems)
        if not problems or (old is not ABSENT and value == old):
            return []
        return list(dict.fromkeys(problems))

    return validate


def _compile_check(source: JsonObject) -> ValueCheck:
    types = _type_names(source)
    format = _supported_format(source, types)
    check_type = _compile_type_check(types, format)
    combine = _combination_check(source)
    enum = enum_checks(source)
    nullable = bool(source.get("nullable"))
    steps: dict[str, list[ValueCheck]] = {
        "string": [*string_checks(source, format), *enum],
        "integer": [*number_checks(source, types, format), *enum],
        "number": [*number_checks(source, types, format), *enum],
        "boolean": enum,
        "array": [*_array_checks(source), *enum],
        "object": [*enum, *_object_checks(source)],
    }

    def check(value: Any, path: str, old: Any, problems: list[FieldError]) -> int:
        if value is None:
            if types and not nullable:
                problems.append(wrong_type_error(path, ",".join(types), "null"))
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


def _supported_format(source: JsonObject, types: tuple[str, ...]) -> str:
    format: str = source.get("format", "")
    only = types[0] if len(types) == 1 else ""
    if only in ("", "string"):
        known = format_predicate(format) is not None
    else:
        known = format in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(
            only, ()
        )
    return format if known else ""


def _compile_type_check(
    types: tuple[str, ...], format: str
) -> Callable[[Any, str, str, str, list[FieldError]], int]:
    if not types and not format:
        return lambda value, name, value_format, path, problems: 0
    accepts = set(types)
    if "number" in accepts:
        accepts.add("integer")
    numeric = not accepts.isdisjoint(("integer", "number"))

    def check(
        value: Any, name: str, value_format: str, path: str, problems: list[FieldError]
    ) -> int:
        if name in accepts:
            return 2
        if name == "number" and "integer" in accepts and _is_exact_integer(value):
            return 2
        textual = name in ("string", "array")
        if format and not textual and value_format != format:
            problems.append(wrong_type_error(path, format, value_format))
            return 1
        if format and textual and not numeric:
            return 2
        problems.append(wrong_type_error(path, ",".join(types), name))
        return 1

    return check


def _is_exact_integer(value: float) -> bool:
    """Whether a number with a decimal point is exactly an integer."""
    return abs(value) < 1 << 53 and float(value).is_integer()


def _object_checks(source: JsonObject) -> list[ValueCheck]:
    limits = object_checks(source)
    known: dict[str, JsonObject] = source.get("properties", {})
    fields = LazyCompiledFields(known, _compile_check)
    required: Sequence[str] = source.get("required", ())
    values: Any = source.get("additionalProperties")
    additional = _compile_check(cast(JsonObject, values)) if isinstance(values, dict) else None
    if not limits and not known and not required and additional is None:
        return []

    def check(value: Any, path: str, old: Any, problems: list[FieldError]) -> int:
        matches = 1
        for limit in limits:
            limit(value, path, old, problems)
        before: dict[str, Any] = _NONE if type(old) is not dict else cast(JsonObject, old)
        if additional is not None:
            for key, inner in value.items():
                if key not in known:
                    matches += _run_nested(
                        additional, inner, f"{path}.{key}", before.get(key, ABSENT), problems
                    )
        for name in known:
            if name in value and (field := fields[name]) is not None:
                child_path = f"{path}.{name}" if path else name
                matches += _run_nested(
                    field, value[name], child_path, before.get(name, ABSENT), problems
                )
        for name in required:
            if name not in value:
                problems.append(required_value(f"{path}.{name}" if path else name))
        return matches

    return [check]


def _array_checks(source: JsonObject) -> list[ValueCheck]:
    limits = array_checks(source)
    items: Any = source.get("items")
    item = _compile_check(cast(JsonObject, items)) if isinstance(items, dict) else None
    keys: Sequence[str] = (
        source.get("x-kubernetes-list-map-keys", ())
        if source.get("x-kubernetes-list-type") == "map"
        else ()
    )
    if not limits and item is None:
        return []

    def check(value: Any, path: str, old: Any, problems: list[FieldError]) -> int:
        matches = 2
        if item is not None:
            before = _old_items_by_key(old, keys)
            for index, inner in enumerate(value):
                previous = before.get(_item_key(inner, keys), ABSENT) if before else ABSENT
                matches += _run_nested(item, inner, f"{path}[{index}]", previous, problems)
        for limit in limits:
            limit(value, path, old, problems)
        return matches

    return [check]


def _run_nested(
    check: ValueCheck, value: Any, path: str, old: Any, problems: list[FieldError]
) -> int:
    start = len(problems)
    matches = check(value, path, old, problems)
    if len(problems) > start and old is not ABSENT and value == old:
        del problems[start:]
    return matches


def _old_items_by_key(old: Any, keys: Sequence[str]) -> dict[Any, Any]:
    """The old items of a list with keys: items of other lists have no identity."""
    items: list[Any] = old
    if not keys or type(items) is not list:
        return {}
    return {key: item for item in items if (key := _item_key(item, keys)) is not None}


def _item_key(item: Any, keys: Sequence[str]) -> tuple[str, ...] | None:
    fields: dict[str, Any] = item
    if type(fields) is not dict:
        return None
    return tuple(repr(fields.get(key)) for key in keys)


def _combination_check(source: JsonObject) -> ValueCheck | None:
    any_of = [_compile_check(each) for each in source.get("anyOf", ())]
    one_of = [_compile_check(each) for each in source.get("oneOf", ())]
    all_of = [_compile_check(each) for each in source.get("allOf", ())]
    none_of = _compile_check(source["not"]) if source.get("not") is not None else None
    if not (any_of or one_of or all_of or none_of):
        return None

    def check(value: Any, path: str, old: Any, problems: list[FieldError]) -> int:
        matches = 2
        if any_of:
            valid_count, best, count = _best_alternative(any_of, value, path, old)
            if not valid_count:
                problems.append(
                    error_without_path(f'"{path}" must validate at least one schema (anyOf)')
                )
                problems.extend(best)
            matches += count
        if one_of:
            valid_count, best, count = _best_alternative(one_of, value, path, old)
            if valid_count != 1:
                found = (
                    f"Found {valid_count} valid alternatives" if valid_count else "Found none valid"
                )
                problems.append(
                    error_without_path(
                        f'"{path}" must validate one and only one schema (oneOf). {found}'
                    )
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
                suffix = ". None validated" if failed == len(all_of) else ""
                problems.append(
                    error_without_path(f'"{path}" must validate all the schemas (allOf){suffix}')
                )
        if none_of is not None:
            errors: list[FieldError] = []
            none_of(value, path, old, errors)
            if not errors:
                problems.append(error_without_path(f'"{path}" must not validate the schema (not)'))
        return matches

    return check


def _best_alternative(
    checks: list[ValueCheck], value: Any, path: str, old: Any
) -> tuple[int, list[FieldError], int]:
    """How many alternatives are valid; the errors of the best one if none is; its match count."""
    valid_count = 0
    first = 0
    best: list[FieldError] = []
    best_count = -1
    for check in checks:
        found: list[FieldError] = []
        matches = check(value, path, old, found)
        if not found:
            first = first if valid_count else matches
            valid_count += 1
        elif matches > best_count:
            best, best_count = found, matches
    return (valid_count, [], first) if valid_count else (0, best, best_count)
