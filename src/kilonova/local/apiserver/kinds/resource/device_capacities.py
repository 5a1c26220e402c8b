"""Validation of a device's attributes, capacities with request policies, and counters."""

import re
from collections.abc import Iterator
from itertools import pairwise

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, quantity_from_json
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    required_value,
    too_long_value,
)
from kilonova.local.apimachinery.unstructured import (
    nested_object,
    nested_objects,
    nested_strings,
    nested_value,
)
from kilonova.local.apiserver.kinds.resource.name_validation import (
    MAX_QUALIFIED_NAME_LENGTH,
    ItemValidator,
    validate_attribute_name,
    validate_dns_label,
    validate_max_items,
    validate_unique_items,
)

_MAX_VALUE_LENGTH = 64
_MAX_COUNTER_NAME_LENGTH = 63
_MAX_COUNTERS = 32
_MAX_VALID_VALUES = 10
_VALUES = ("int", "bool", "string", "version")
_NUMBER = r"(0|[1-9]\d*)"
_PRERELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = "[0-9a-zA-Z-]+"
_is_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?"
    rf"(\+{_BUILD}(\.{_BUILD})*)?",
    re.ASCII,
).fullmatch


def validate_attributes(device: JsonObject, path: str) -> Iterator[FieldError]:
    """Attribute names, and exactly one typed value for each."""
    yield from _validate_entries(
        nested_object(device, "attributes"), validate_attribute_name, _validate_attribute, path
    )


def validate_capacities(device: JsonObject, path: str) -> Iterator[FieldError]:
    """Capacity names, and request policies, if the device allows multiple allocations."""
    check = (
        _validate_shared_capacity
        if device.get("allowMultipleAllocations")
        else _validate_exclusive_capacity
    )
    yield from _validate_entries(
        nested_object(device, "capacity"), validate_attribute_name, check, path
    )


def validate_counters(value: JsonObject, path: str) -> Iterator[FieldError]:
    """Counters of a counter set, or those that a device consumes."""
    counters = nested_object(value, "counters")
    path = f"{path}.counters"
    if not counters:
        yield required_value(path)
    elif len(counters) > _MAX_COUNTERS:
        yield from validate_max_items(len(counters), _MAX_COUNTERS, path)
    else:
        yield from _validate_entries(
            counters, validate_dns_label, _accept_any, path, _MAX_COUNTER_NAME_LENGTH
        )


def _validate_entries(
    values: JsonObject,
    check_key: ItemValidator[str],
    check_value: ItemValidator[JsonObject],
    path: str,
    max_key_length: int = MAX_QUALIFIED_NAME_LENGTH,
) -> Iterator[FieldError]:
    for key, value in values.items():
        yield from check_key(key, path)
        yield from check_value(value, f"{path}[{_truncate_key(key, max_key_length)}]")


def _truncate_key(key: str, max_length: int) -> str:
    if len(key) <= max_length:
        return key
    prefix_length = max_length - len("...")
    return f"{key[: (prefix_length + 1) // 2]}...{key[len(key) - prefix_length // 2 :]}"


def _accept_any(value: JsonObject, path: str) -> Iterator[FieldError]:
    yield from ()


def _validate_attribute(attribute: JsonObject, path: str) -> Iterator[FieldError]:
    if (text := attribute.get("string")) is not None:
        yield from _validate_length(text, f"{path}.string")
    if (version := attribute.get("version")) is not None:
        if not _is_version(version):
            detail = "must be a string compatible with semver.org spec 2.0.0"
            yield invalid_value(f"{path}.version", version, detail)
        yield from _validate_length(version, f"{path}.version")
    values = {name: attribute[name] for name in _VALUES if attribute.get(name) is not None}
    if len(values) != 1:
        formatted = _go_format(values) if values else ""
        yield invalid_value(path, formatted, "exactly one value must be specified")


def _go_format(values: JsonObject) -> JsonObject:
    names = {"int": "IntValue", "bool": "BoolValue", "string": "StringValue"}
    go_value = {go: values.get(name) for name, go in {**names, "version": "VersionValue"}.items()}
    lists = dict.fromkeys(("IntValues", "BoolValues", "StringValues", "VersionValues"))
    return {**go_value, **lists}


def _validate_length(text: str, path: str) -> Iterator[FieldError]:
    if len(text.encode()) > _MAX_VALUE_LENGTH:
        yield too_long_value(path, _MAX_VALUE_LENGTH)


def _validate_exclusive_capacity(capacity: JsonObject, path: str) -> Iterator[FieldError]:
    if capacity.get("requestPolicy") is not None:
        detail = "allowMultipleAllocations must be true"
        yield forbidden_value(f"{path}.requestPolicy", detail)


def _validate_shared_capacity(capacity: JsonObject, path: str) -> Iterator[FieldError]:
    policy: JsonObject | None = capacity.get("requestPolicy")
    if policy is None:
        return
    path = f"{path}.requestPolicy"
    choices, bounds = nested_strings(policy, "validValues"), policy.get("validRange")
    policy_field = "validValues" if choices else "validRange"
    if choices and bounds is not None:
        detail = (
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
            "at the same time"
        )
        yield forbidden_value(path, detail)
    elif choices or bounds is not None:
        if policy.get("default") is None:
            yield required_value(f"{path}.default", f"required when {policy_field} is defined")
            return
        all, default = (
            quantity_from_json(capacity.get("value", 0)),
            quantity_from_json(policy["default"]),
        )
        if choices:
            yield from _validate_valid_values(
                [quantity_from_json(each) for each in choices], default, all, path
            )
        else:
            yield from _validate_range(
                nested_object(policy, "validRange"), default, all, f"{path}.validRange"
            )


def _validate_valid_values(
    choices: list[Quantity], default: Quantity, all: Quantity, path: str
) -> Iterator[FieldError]:
    path = f"{path}.validValues"
    for index, (before, after) in enumerate(pairwise(choices), 1):
        if before > after:
            detail = "values must be sorted in ascending order"
            yield invalid_value(f"{path}[{index}]", str(after), detail)

    def choice(value: Quantity, item_path: str) -> Iterator[FieldError]:
        if value > all:
            yield invalid_value(
                item_path, str(value), f"option is larger than capacity value: {all}"
            )

    yield from validate_unique_items(
        choices, _MAX_VALID_VALUES, choice, path, lambda each: str(each.value)
    )
    if default not in choices[: _MAX_VALID_VALUES if len(choices) <= _MAX_VALID_VALUES else 0]:
        detail = "default value is not valid according to the requestPolicy"
        yield invalid_value(path, str(default), detail)


def _validate_range(
    bounds: JsonObject, default: Quantity, all: Quantity, path: str
) -> Iterator[FieldError]:
    minimum, maximum, step = (_parse_bound(bounds, name) for name in ("min", "max", "step"))
    if minimum is None:
        yield required_value(f"{path}.min", "required when validRange is defined")
        return
    if minimum > all:
        yield invalid_value(
            f"{path}.min", str(minimum), f"min is larger than capacity value: {all}"
        )
    if default < minimum:
        yield invalid_value(f"{path}.min", str(default), f"default is less than min: {minimum}")
    if maximum is not None:
        if minimum > maximum:
            yield invalid_value(f"{path}.max", str(minimum), f"min is larger than max: {maximum}")
        if maximum > all:
            detail = f"max is larger than capacity value: {all}"
            yield invalid_value(f"{path}.max", str(maximum), detail)
        if default > maximum:
            yield invalid_value(f"{path}.max", str(default), f"default is more than max: {maximum}")
    if step is not None:
        if minimum + step > all:
            detail = f"one step {minimum + step} is larger than capacity value: {all}"
            yield invalid_value(f"{path}.step", str(step), detail)
        for value in (default, maximum):
            if value is not None and not _is_step_multiple(value, minimum, step):
                detail = f"value is not a multiple of a given step ({step}) from ({minimum})"
                yield invalid_value(f"{path}.step", str(value), detail)


def _parse_bound(bounds: JsonObject, name: str) -> Quantity | None:
    value = nested_value(bounds, name)
    return None if value is None else quantity_from_json(value)


def _is_step_multiple(value: Quantity, minimum: Quantity, step: Quantity) -> bool:
    return step.value != 0 and (value.value - minimum.value) % step.value == 0


def validate_counter_consumption(
    device: JsonObject, path: str, max_items: int
) -> Iterator[FieldError]:
    """The counter sets that a device consumes, without duplicates."""

    def consumption(value: JsonObject, item_path: str) -> Iterator[FieldError]:
        if value.get("counterSet"):
            yield from validate_dns_label(value["counterSet"], f"{item_path}.counterSet")
        else:
            yield required_value(f"{item_path}.counterSet")
        yield from validate_counters(value, item_path)

    sets = nested_objects(device, "consumesCounters")
    yield from validate_unique_items(
        sets, max_items, consumption, path, lambda each: each.get("counterSet", "")
    )
