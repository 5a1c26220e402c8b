"""Selectors of devices: conditions in CEL on `device`."""

from collections.abc import Iterator
from functools import lru_cache

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, required, too_long
from kilonova.local.kinds.devicenames import each
from kilonova.local.kinds.walk import at
from kilonova.local.schema.cel.environment import CompileError, environment
from kilonova.local.schema.cel.types import BOOL, DYN, STRING, CelType, Fields, map_of
from kilonova.local.schema.node import Schema

_MOST_SELECTORS = 32
_LONGEST_EXPRESSION = 10 * 1024
_KNOWN_EXPRESSIONS = 512


class _DeviceFields(Fields):
    def __init__(self, **types: CelType) -> None:
        super().__init__(Schema(type="object"), False)
        self._types.update(types)


_DEVICE = CelType(
    "kubernetes.DRADevice",
    fields=_DeviceFields(
        driver=STRING,
        allowMultipleAllocations=BOOL,
        attributes=map_of(map_of(DYN)),
        capacity=map_of(map_of(CelType("kubernetes.Quantity"))),
    ),
)


def selector_problems(selectors: list[JsonObject], path: str) -> Iterator[Problem]:
    """What is wrong with a list of selectors."""
    yield from each(selectors, _MOST_SELECTORS, _selector, path)


def _selector(selector: JsonObject, path: str) -> Iterator[Problem]:
    if selector.get("cel") is None:
        yield required(f"{path}.cel")
        return
    here, source = f"{path}.cel.expression", at(selector, "cel", "expression") or ""
    if len(source.encode()) > _LONGEST_EXPRESSION:
        yield too_long(here, _LONGEST_EXPRESSION)
    elif trouble := _trouble(source):
        yield invalid_value(here, source, trouble)


@lru_cache(maxsize=_KNOWN_EXPRESSIONS)
def _trouble(source: str) -> str:
    """Remembered: claims made from one template carry the same few expressions."""
    try:
        program = environment(("device",), bindings=True).compile(source, {"device": _DEVICE})
    except CompileError as error:
        return f"compilation failed: {error}"
    if program.type.name in ("bool", "dyn"):
        return ""
    return f"must evaluate to bool or the unknown type, not {program.type.name}"
