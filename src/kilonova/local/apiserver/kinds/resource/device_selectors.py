"""Validation of device selectors: CEL expressions on `device`."""

from collections.abc import Iterator
from functools import lru_cache

from kilonova.api.json import JsonObject
from kilonova.cel.environment import CompileError
from kilonova.cel.types import BOOL, DYN, STRING, CelType, map_of
from kilonova.local.apimachinery.errors import (
    FieldError,
    invalid_value,
    required_value,
    too_long_value,
)
from kilonova.local.apimachinery.unstructured import nested_value
from kilonova.local.apiserver.kinds.resource.name_validation import validate_items
from kilonova.local.apiserver.schema.cel.environment import environment

_MAX_SELECTORS = 32
_MAX_EXPRESSION_LENGTH = 10 * 1024
_CACHE_SIZE = 512


_DEVICE = CelType(
    "kubernetes.DRADevice",
    fields={
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(map_of(DYN)),
        "capacity": map_of(map_of(CelType("kubernetes.Quantity"))),
    },
)


def validate_device_selectors(selectors: list[JsonObject], path: str) -> Iterator[FieldError]:
    """Validate a list of selectors."""
    yield from validate_items(selectors, _MAX_SELECTORS, _validate_selector, path)


def _validate_selector(selector: JsonObject, path: str) -> Iterator[FieldError]:
    if selector.get("cel") is None:
        yield required_value(f"{path}.cel")
        return
    field_path, source = f"{path}.cel.expression", nested_value(selector, "cel", "expression") or ""
    if len(source.encode()) > _MAX_EXPRESSION_LENGTH:
        yield too_long_value(field_path, _MAX_EXPRESSION_LENGTH)
    elif error := _compile_error(source):
        yield invalid_value(field_path, source, error)


@lru_cache(maxsize=_CACHE_SIZE)
def _compile_error(source: str) -> str:
    """Cached: claims made from one template have the same few expressions."""
    try:
        program = environment(("device",), bindings=True).compile(source, {"device": _DEVICE})
    except CompileError as error:
        return f"compilation failed: {error}"
    if program.type.name in ("bool", "dyn"):
        return ""
    return f"must evaluate to bool or the unknown type, not {program.type.name}"
