"""Selectors of devices: conditions in CEL on `device`, with Kubernetes' amounts and versions.

An expression is compiled once, and asked once about each device that looks the same. One that
comes to no result for a device, because it reads an attribute that the device does not have, does
not select it. The runtime is loaded when the first expression is compiled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from kilonova.scheduler.core.claims import Attribute, Device, DeviceId
from kilonova.scheduler.reading.celvalues import FUNCTIONS, Function, sealed_amount, sealed_version

if TYPE_CHECKING:
    from cel_expr_python import cel

_KEPT_PROGRAMS = 1024
_KEPT_ANSWERS = 1 << 18
_SUBSCRIPT = re.compile(r"""\[\s*(["'])((?:(?!\1).)+)\1\s*\]""")


class SelectorError(ValueError):
    """An expression that can not be understood."""


def check(expression: str) -> None:
    """Raises `SelectorError` for an expression that nobody can evaluate."""
    _program(expression)


class Selectors:
    """Remembers which devices meet which selectors, as long as they stay as they are."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, DeviceId], tuple[Device, bool]] = {}

    def __call__(self, expression: str, device: Device) -> bool:
        key = expression, device.id
        known = self._answers.get(key)
        if known is None or known[0] != device:
            if len(self._answers) >= _KEPT_ANSWERS:
                self._answers.clear()
            known = self._answers[key] = device, matches(expression, device)
        return known[1]


def matches(expression: str, device: Device) -> bool:
    """Whether a device meets a selector."""
    try:
        program = _program(expression)
    except SelectorError:
        return False
    return program(device)


@lru_cache(maxsize=_KEPT_PROGRAMS)
def _program(expression: str) -> Callable[[Device], bool]:
    environment = _environment()
    try:
        compiled = environment.compile(expression)
    except RuntimeError as error:
        raise SelectorError(re.sub(r"^[A-Z_]+: ", "", str(error))) from None
    domains = {match[2] for match in _SUBSCRIPT.finditer(expression)}

    def holds(device: Device) -> bool:
        values = {"device": _shown(device, domains)}
        try:
            return compiled.eval(environment.Activation(values)).value() is True
        except (RuntimeError, TypeError, ValueError):
            return False

    return holds


def _shown(device: Device, domains: set[str]) -> dict[str, Any]:
    """A device as expressions see it: names in their domains. A domain that an expression asks for
    is there, if only with nothing in it."""
    driver = device.id.driver
    attributes = {name: _value(attribute) for name, attribute in device.attributes.items()}
    amounts = {name: sealed_amount(each.value) for name, each in device.capacity.items()}
    return {
        "driver": driver,
        "allowMultipleAllocations": device.shared,
        "attributes": _by_domain(attributes, driver, domains),
        "capacity": _by_domain(amounts, driver, domains),
    }


def _by_domain(values: Mapping[str, Any], driver: str, domains: set[str]) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    for name, value in values.items():
        domain, stroke, plain = name.partition("/")
        found.setdefault(domain if stroke else driver, {})[plain if stroke else name] = value
    return found


def _value(attribute: Attribute) -> Any:
    if attribute.kind == "version":
        return sealed_version(str(attribute.value))
    return attribute.value


_EXTENSIONS = [
    {"name": "two-var-comprehensions"},
    {"name": "lists"},
    {"name": "sets"},
    {"name": "optional"},
    {"name": "bindings"},
    {"name": "strings", "version": 2},
]


@cache
def _environment() -> cel.Env:
    from cel_expr_python import cel

    def type_of(word: str) -> cel.Type:
        return getattr(cel.Type, word.upper())

    def declared(each: Function) -> cel.FunctionDecl:
        overloads = [
            cel.Overload(
                f"{each.name}_{'_'.join(words)}",
                type_of(each.result),
                [type_of(word) for word in words],
                each.member,
                each.call,
            )
            for words in each.parameters
        ]
        return cel.FunctionDecl(each.name, overloads)

    text = {"extensions": _EXTENSIONS, "variables": [{"name": "device", "type_name": "dyn"}]}
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(json.dumps(text)),
        extensions=[cel.CelExtension("kubernetes", [declared(each) for each in FUNCTIONS])],
    )
