"""Device selectors: CEL expressions on `device`, with Kubernetes' quantities and versions.

An expression is compiled once, and evaluated once for equal devices. If the evaluation fails,
because the device lacks an attribute, the device is not selected. The CEL runtime is imported when
the first expression is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from kilonova.cel.environment import CompileError, Environment
from kilonova.cel.functions.quantities_and_versions import quantity_value, semver_value
from kilonova.scheduler.core.dra.claims import Device, DeviceId

_MAX_CACHED_PROGRAMS = 1024
_MAX_CACHED_RESULTS = 1 << 18
_SUBSCRIPT = re.compile(r"""\[\s*(["'])((?:(?!\1).)+)\1\s*\]""")


class SelectorError(ValueError):
    """An invalid expression."""


def check_expression(expression: str) -> None:
    """Raise `SelectorError` for an expression that cannot be evaluated."""
    _compile_selector(expression)


class DeviceSelectorCache:
    """Caches which devices match which selectors, as long as they do not change."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, DeviceId], tuple[Device, bool]] = {}

    def __call__(self, expression: str, device: Device) -> bool:
        key = expression, device.id
        known = self._results.get(key)
        if known is None or known[0] != device:
            if len(self._results) >= _MAX_CACHED_RESULTS:
                self._results.clear()
            known = self._results[key] = device, matches_device(expression, device)
        return known[1]


def matches_device(expression: str, device: Device) -> bool:
    """Whether a device matches a selector."""
    try:
        program = _compile_selector(expression)
    except SelectorError:
        return False
    return program(device)


@lru_cache(maxsize=_MAX_CACHED_PROGRAMS)
def _compile_selector(expression: str) -> Callable[[Device], bool]:
    environment = _cel_environment()
    try:
        evaluate_expression = environment.compile_unmetered(expression).eval
    except CompileError as error:
        raise SelectorError(str(error)) from None
    bind = environment.bind
    domains = {match[2] for match in _SUBSCRIPT.finditer(expression)}

    def evaluate(device: Device) -> bool:
        values = {"device": _device_variable(device, domains)}
        try:
            return evaluate_expression(bind(values)).value() is True
        except (RuntimeError, TypeError, ValueError):
            return False

    return evaluate


def _device_variable(device: Device, domains: set[str]) -> dict[str, Any]:
    """The CEL value of a device: attributes by domain. Every domain used by an expression exists,
    if only empty."""
    driver = device.id.driver
    attributes = {
        name: semver_value(str(each.value)) if each.kind == "version" else each.value
        for name, each in device.attributes.items()
    }
    amounts = {name: quantity_value(each.value) for name, each in device.capacity.items()}
    return {
        "driver": driver,
        "allowMultipleAllocations": device.shared,
        "attributes": _group_by_domain(attributes, driver, domains),
        "capacity": _group_by_domain(amounts, driver, domains),
    }


def _group_by_domain(values: Mapping[str, Any], driver: str, domains: set[str]) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    for name, value in values.items():
        domain, stroke, plain = name.partition("/")
        found.setdefault(domain if stroke else driver, {})[plain if stroke else name] = value
    return found


@cache
def _cel_environment() -> Environment:
    return Environment(("device",), bindings=True)
