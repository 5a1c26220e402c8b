"""The override file: own GPU models, machine types and prices, in YAML or JSON.

    gpus:                                     # added, or in place of the model of that name
    - {name: X1, architecture: Hopper, capability: [9, 0], memory: 81559, products: [ACME-X1]}
    machines:
    - {name: rack-8x, cpu: 192, memory: 2048, gpu: X1, gpus: 8}
    prices:
      machines: {rack-8x: {onDemand: 21.5, spot: 9}}
      gpus: {H100: {onDemand: 2.1}}           # by name, product or alias
      slices: {H100: {1g.10gb: {onDemand: 0.3}}}

Every error names the file, the field, the value found, and a valid value.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from kilonova.catalog.gpus import GpuModel, select_gpu
from kilonova.catalog.machines import MachineType
from kilonova.catalog.mig import geometry_named, known_geometries
from kilonova.catalog.prices import MAX_PRICE, Price, PriceList

T = TypeVar("T")
_MAX_SHOWN = 60
_FIX_BY_TYPE = {
    "int": "write a whole number",
    "float": "write a number",
    "str": "write text",
    "array": "write a list: [ … ]",
    "object": "write fields with values: { … }",
    "bool": "write true or false",
}


class OverrideError(Exception):
    """An invalid override file."""


class Overrides(msgspec.Struct, frozen=True):
    """What takes precedence over the catalog."""

    gpus: tuple[GpuModel, ...] = ()
    machines: tuple[MachineType, ...] = ()
    prices: PriceList = PriceList()


NO_OVERRIDES = Overrides()


def read_overrides(path: Path, find_known_gpu: Callable[[str], GpuModel | None]) -> Overrides:
    """The overrides of a file; `find_known_gpu` finds a model of the catalog by product name."""
    import yaml  # slow, and few have such a file

    try:
        source = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise OverrideError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        reason = str(error).splitlines()[0]
        raise OverrideError(f"{path} is not YAML: {reason}") from None
    try:
        return _parse_overrides({} if source is None else source, find_known_gpu)
    except _FieldError as error:
        raise OverrideError(f"{path}: {error}") from None


class _FieldError(Exception):
    """Field, value and fix."""


def _parse_overrides(source: object, find_known_gpu: Callable[[str], GpuModel | None]) -> Overrides:
    fields = _parse_mapping(source, "the file", ("gpus", "machines", "prices"))
    gpus = tuple(
        _convert(each, GpuModel, f"gpus[{number}]")
        for number, each in enumerate(_parse_list(fields.get("gpus", []), "gpus"))
    )
    for number, model in enumerate(gpus):
        if model.mig and geometry_named(model.mig) is None:
            choices = ", ".join(each.name for each in known_geometries())
            raise _FieldError(
                f'gpus[{number}].mig: "{model.mig}" is not a MIG geometry: choose from {choices}'
            )

    def resolve_gpu(name: str, where: str) -> str:
        model = select_gpu(gpus, name) or find_known_gpu(name)
        if model is None:
            raise _FieldError(
                f'{where}: "{name}" is not a known GPU model: '
                "write a name that `kilonova catalog gpus` lists, or add the model under gpus"
            )
        return model.name

    machines: list[MachineType] = []
    for number, each in enumerate(_parse_list(fields.get("machines", []), "machines")):
        where = f"machines[{number}]"
        machine = _convert(each, MachineType, where)
        if bool(machine.gpu) != bool(machine.gpus):
            raise _FieldError(f"{where}.gpus: {machine.gpus} does not fit gpu: give both or none")
        gpu = resolve_gpu(machine.gpu, f"{where}.gpu") if machine.gpu else ""
        machines.append(msgspec.structs.replace(machine, gpu=gpu))
    prices = _parse_prices(fields.get("prices", {}), resolve_gpu)
    return Overrides(gpus, tuple(machines), prices)


def _parse_prices(source: object, resolve_gpu: Callable[[str, str], str]) -> PriceList:
    fields = _parse_mapping(source, "prices", ("machines", "gpus", "slices"))
    machines = _parse_price_table(fields.get("machines", {}), "prices.machines")
    gpus = _parse_price_table(fields.get("gpus", {}), "prices.gpus")
    slices = {
        resolve_gpu(gpu, "prices.slices"): _parse_price_table(table, f"prices.slices.{gpu}")
        for gpu, table in _parse_mapping(fields.get("slices", {}), "prices.slices").items()
    }
    named = {resolve_gpu(gpu, "prices.gpus"): price for gpu, price in gpus.items()}
    return PriceList(machines=machines, gpus=named, slices=slices)


def _parse_price_table(source: object, where: str) -> dict[str, Price]:
    return {
        name: _convert(each, Price, f"{where}.{name}")
        for name, each in _parse_mapping(source, where).items()
    }


def _parse_list(source: object, where: str) -> list[object]:
    if not isinstance(source, list):
        raise _FieldError(f"{where}: {_format_value(source)} is invalid: write a list: [ … ]")
    return cast("list[object]", source)


def _parse_mapping(
    source: object, where: str, choices: tuple[str, ...] = ()
) -> Mapping[str, object]:
    if not isinstance(source, dict):
        raise _FieldError(
            f"{where}: {_format_value(source)} is invalid: write fields with values: {{ … }}"
        )
    fields = cast("dict[object, object]", source)
    for name in fields:
        if not isinstance(name, str):
            raise _FieldError(f'{where}: {name!r} is not text: write it in quotes, as "{name}"')
        if choices and name not in choices:
            raise _FieldError(f"{where}: unknown field {name}: choose from {', '.join(choices)}")
    return cast("dict[str, object]", source)


def _convert(source: object, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(source, kind)
    except msgspec.ValidationError as error:
        raise _FieldError(_describe_mismatch(source, str(error), kind, where)) from None


def _describe_mismatch(source: Any, message: str, kind: type[Any], where: str) -> str:
    """Translate an error of msgspec into the terms of the file."""
    reason, _, found = message.partition(" - at `$")
    path = found.rstrip("`")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", reason):
        choices = ", ".join(field.encode_name for field in msgspec.structs.fields(kind))
        fix = f"choose from {choices}" if not path else "see docs/catalog.md"
        return f"{where}{path}.{unknown[1]}: unknown field: {fix}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", reason):
        return f"{where}{path}.{missing[1]}: is missing: it is required"
    value = source
    for key in path.strip(".").split(".") if path and "[" not in path else ():
        value = value[key]
    expected = re.match(r"Expected `(\w+)[^`]*`, got", reason)
    if kind is Price and not expected:
        fix = f"write USD per hour between 0 and {MAX_PRICE:,.0f}"
    else:
        fix = _FIX_BY_TYPE.get(expected[1], reason) if expected else reason
    return f"{where}{path}: {_format_value(value)} is invalid: {fix}"


def _format_value(value: object) -> str:
    """A value as it is written, if it is short."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else "a long text"
