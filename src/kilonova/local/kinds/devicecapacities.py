"""What a device has: attributes, capacities and how they are shared out, counters it draws on."""

import re
from collections.abc import Iterator
from itertools import pairwise

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, from_json
from kilonova.local.errors import Problem, forbidden_field, invalid_value, required, too_long
from kilonova.local.kinds.devicenames import (
    LONGEST_QUALIFIED,
    Check,
    at_most,
    attribute_name,
    each_once,
    short_name,
)
from kilonova.local.kinds.walk import at, objects, part, strings

_LONGEST_VALUE = 64
_LONGEST_COUNTER = 63
_MOST_COUNTERS = 32
_MOST_CHOICES = 10
_VALUES = ("int", "bool", "string", "version")
_NUMBER = r"(0|[1-9]\d*)"
_PRERELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = "[0-9a-zA-Z-]+"
_is_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?"
    rf"(\+{_BUILD}(\.{_BUILD})*)?",
    re.ASCII,
).fullmatch


def attribute_problems(device: JsonObject, path: str) -> Iterator[Problem]:
    """Names, and one value of one type under each."""
    yield from _each_entry(part(device, "attributes"), attribute_name, _attribute, path)


def capacity_problems(device: JsonObject, path: str) -> Iterator[Problem]:
    """Names, and how a capacity may be shared out, if the device may be allocated repeatedly."""
    check = _shared if device.get("allowMultipleAllocations") else _whole
    yield from _each_entry(part(device, "capacity"), attribute_name, check, path)


def counter_problems(value: JsonObject, path: str) -> Iterator[Problem]:
    """Counters of a set, or those that a device takes from it."""
    counters = part(value, "counters")
    path = f"{path}.counters"
    if not counters:
        yield required(path)
    elif len(counters) > _MOST_COUNTERS:
        yield from at_most(len(counters), _MOST_COUNTERS, path)
    else:
        yield from _each_entry(counters, short_name, _anything, path, _LONGEST_COUNTER)


def _each_entry(
    values: JsonObject,
    check_key: Check[str],
    check_value: Check[JsonObject],
    path: str,
    longest: int = LONGEST_QUALIFIED,
) -> Iterator[Problem]:
    for key, value in values.items():
        yield from check_key(key, path)
        yield from check_value(value, f"{path}[{_shortened(key, longest)}]")


def _shortened(key: str, longest: int) -> str:
    if len(key) <= longest:
        return key
    room = longest - len("...")
    return f"{key[: (room + 1) // 2]}...{key[len(key) - room // 2 :]}"


def _anything(value: JsonObject, path: str) -> Iterator[Problem]:
    yield from ()


def _attribute(attribute: JsonObject, path: str) -> Iterator[Problem]:
    if (text := attribute.get("string")) is not None:
        yield from _short_enough(text, f"{path}.string")
    if (version := attribute.get("version")) is not None:
        if not _is_version(version):
            detail = "must be a string compatible with semver.org spec 2.0.0"
            yield invalid_value(f"{path}.version", version, detail)
        yield from _short_enough(version, f"{path}.version")
    given = {name: attribute[name] for name in _VALUES if attribute.get(name) is not None}
    if len(given) != 1:
        shown = _as_go_shows(given) if given else ""
        yield invalid_value(path, shown, "exactly one value must be specified")


def _as_go_shows(values: JsonObject) -> JsonObject:
    names = {"int": "IntValue", "bool": "BoolValue", "string": "StringValue"}
    shown = {go: values.get(name) for name, go in {**names, "version": "VersionValue"}.items()}
    lists = dict.fromkeys(("IntValues", "BoolValues", "StringValues", "VersionValues"))
    return {**shown, **lists}


def _short_enough(text: str, path: str) -> Iterator[Problem]:
    if len(text.encode()) > _LONGEST_VALUE:
        yield too_long(path, _LONGEST_VALUE)


def _whole(capacity: JsonObject, path: str) -> Iterator[Problem]:
    if capacity.get("requestPolicy") is not None:
        detail = "allowMultipleAllocations must be true"
        yield forbidden_field(f"{path}.requestPolicy", detail)


def _shared(capacity: JsonObject, path: str) -> Iterator[Problem]:
    policy: JsonObject | None = capacity.get("requestPolicy")
    if policy is None:
        return
    path = f"{path}.requestPolicy"
    choices, bounds = strings(policy, "validValues"), policy.get("validRange")
    form = "validValues" if choices else "validRange"
    if choices and bounds is not None:
        detail = (
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
            "at the same time"
        )
        yield forbidden_field(path, detail)
    elif choices or bounds is not None:
        if policy.get("default") is None:
            yield required(f"{path}.default", f"required when {form} is defined")
            return
        all, default = from_json(capacity.get("value", 0)), from_json(policy["default"])
        if choices:
            yield from _choices([from_json(each) for each in choices], default, all, path)
        else:
            yield from _range(part(policy, "validRange"), default, all, f"{path}.validRange")


def _choices(
    choices: list[Quantity], default: Quantity, all: Quantity, path: str
) -> Iterator[Problem]:
    path = f"{path}.validValues"
    for index, (before, after) in enumerate(pairwise(choices), 1):
        if before > after:
            detail = "values must be sorted in ascending order"
            yield invalid_value(f"{path}[{index}]", str(after), detail)

    def choice(value: Quantity, here: str) -> Iterator[Problem]:
        if value > all:
            yield invalid_value(here, str(value), f"option is larger than capacity value: {all}")

    yield from each_once(choices, _MOST_CHOICES, choice, path, lambda each: str(each.value))
    if default not in choices[: _MOST_CHOICES if len(choices) <= _MOST_CHOICES else 0]:
        detail = "default value is not valid according to the requestPolicy"
        yield invalid_value(path, str(default), detail)


def _range(bounds: JsonObject, default: Quantity, all: Quantity, path: str) -> Iterator[Problem]:
    least, most, step = (_amount(bounds, name) for name in ("min", "max", "step"))
    if least is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    if least > all:
        yield invalid_value(f"{path}.min", str(least), f"min is larger than capacity value: {all}")
    if default < least:
        yield invalid_value(f"{path}.min", str(default), f"default is less than min: {least}")
    if most is not None:
        if least > most:
            yield invalid_value(f"{path}.max", str(least), f"min is larger than max: {most}")
        if most > all:
            detail = f"max is larger than capacity value: {all}"
            yield invalid_value(f"{path}.max", str(most), detail)
        if default > most:
            yield invalid_value(f"{path}.max", str(default), f"default is more than max: {most}")
    if step is not None:
        if least + step > all:
            detail = f"one step {least + step} is larger than capacity value: {all}"
            yield invalid_value(f"{path}.step", str(step), detail)
        for value in (default, most):
            if value is not None and not _is_on_a_step(value, least, step):
                detail = f"value is not a multiple of a given step ({step}) from ({least})"
                yield invalid_value(f"{path}.step", str(value), detail)


def _amount(bounds: JsonObject, name: str) -> Quantity | None:
    value = at(bounds, name)
    return None if value is None else from_json(value)


def _is_on_a_step(value: Quantity, least: Quantity, step: Quantity) -> bool:
    return step.value != 0 and (value.value - least.value) % step.value == 0


def consumption_problems(device: JsonObject, path: str, most: int) -> Iterator[Problem]:
    """The sets of counters that a device draws on, each once."""

    def consumption(value: JsonObject, here: str) -> Iterator[Problem]:
        if value.get("counterSet"):
            yield from short_name(value["counterSet"], f"{here}.counterSet")
        else:
            yield required(f"{here}.counterSet")
        yield from counter_problems(value, here)

    sets = objects(device, "consumesCounters")
    yield from each_once(sets, most, consumption, path, lambda each: each.get("counterSet", ""))
