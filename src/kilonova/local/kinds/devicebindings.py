"""Conditions that a device must reach before a pod is bound to it, and those that end the wait."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, duplicate, invalid_value
from kilonova.local.kinds.devicenames import each, label_key
from kilonova.local.kinds.walk import strings

_MOST = 4


def binding_problems(value: JsonObject, path: str) -> Iterator[Problem]:
    """Both lists or none, each name once, and in one of them."""
    wanted = strings(value, "bindingConditions")
    failing = strings(value, "bindingFailureConditions")
    wanted_path, failing_path = f"{path}.bindingConditions", f"{path}.bindingFailureConditions"
    yield from each(wanted, _MOST, label_key, wanted_path)
    yield from each(failing, _MOST, label_key, failing_path)
    yield from _repeated(wanted, wanted_path)
    yield from _repeated(failing, failing_path)
    for index, name in enumerate(failing):
        if name in wanted:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid_value(f"{failing_path}[{index}]", name, detail)
    if failing and not wanted:
        detail = "bindingConditions are required to use bindingFailureConditions"
        yield invalid_value(wanted_path, None, detail)
    if wanted and not failing:
        detail = "bindingFailureConditions are required to use bindingConditions"
        yield invalid_value(failing_path, None, detail)


def _repeated(names: list[str], path: str) -> Iterator[Problem]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield duplicate(f"{path}[{index}]", name)
