"""Validation of a device's `bindingConditions` and `bindingFailureConditions`."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, duplicate_value, invalid_value
from kilonova.local.apimachinery.unstructured import nested_strings
from kilonova.local.apiserver.kinds.resource.name_validation import (
    validate_items,
    validate_label_key,
)

_MAX_CONDITIONS = 4


def validate_binding_conditions(value: JsonObject, path: str) -> Iterator[FieldError]:
    """Both lists or neither, and no duplicate name in or between them."""
    binding = nested_strings(value, "bindingConditions")
    failing = nested_strings(value, "bindingFailureConditions")
    binding_path, failing_path = f"{path}.bindingConditions", f"{path}.bindingFailureConditions"
    yield from validate_items(binding, _MAX_CONDITIONS, validate_label_key, binding_path)
    yield from validate_items(failing, _MAX_CONDITIONS, validate_label_key, failing_path)
    yield from _validate_unique(binding, binding_path)
    yield from _validate_unique(failing, failing_path)
    for index, name in enumerate(failing):
        if name in binding:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid_value(f"{failing_path}[{index}]", name, detail)
    if failing and not binding:
        detail = "bindingConditions are required to use bindingFailureConditions"
        yield invalid_value(binding_path, None, detail)
    if binding and not failing:
        detail = "bindingFailureConditions are required to use bindingConditions"
        yield invalid_value(failing_path, None, detail)


def _validate_unique(names: list[str], path: str) -> Iterator[FieldError]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield duplicate_value(f"{path}[{index}]", name)
