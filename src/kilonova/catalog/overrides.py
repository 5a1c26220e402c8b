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

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from kilonova.catalog.gpus import GpuModel, select_gpu
from kilonova.catalog.machines import MachineType
from kilonova.catalog.mig import geometry_named, known_geometries
from kilonova.catalog.prices import MAX_PRICE, Price, PriceList
from kilonova.yaml_files import (
    WRITE_LIST,
    WRITE_OBJECT,
    YamlFileError,
    describe_mismatch,
    format_value,
    read_yaml,
)

T = TypeVar("T")


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
    try:
        source = read_yaml(path)
    except YamlFileError as error:
        raise OverrideError(str(error)) from None
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
        raise _FieldError(f"{where}: {format_value(source)} is invalid: {WRITE_LIST}")
    return cast("list[object]", source)


def _parse_mapping(
    source: object, where: str, choices: tuple[str, ...] = ()
) -> Mapping[str, object]:
    if not isinstance(source, dict):
        raise _FieldError(f"{where}: {format_value(source)} is invalid: {WRITE_OBJECT}")
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
        mismatch = describe_mismatch(source, kind, error, where)
        if kind is Price and mismatch.bound:
            fix = f"write USD per hour between 0 and {MAX_PRICE:,.0f}"
            mismatch = mismatch._replace(fix=fix)
        raise _FieldError(str(mismatch)) from None
