"""GPU models, machine types and prices of the catalog as rows. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from kilonova.catalog import Catalog, GpuModel, MachineType, Price, PriceList
from kilonova.catalog.mig import MigProfile, geometry_named

GPU_HEADER = ("NAME", "ARCHITECTURE", "CC", "MEMORY", "SMS", "NVLINK", "MIG", "PRICE", "SPOT")
MACHINE_HEADER = ("NAME", "PROVIDER", "CPU", "MEMORY", "GPUS", "NETWORK", "PRICE", "SPOT")
SLICE_HEADER = ("PROFILE", "SLICES", "STARTS", "MAX", "MEMORY", "SMS", "PRICE", "SPOT")
PRICE_HEADER = ("KIND", "NAME", "PROVIDER", "REGION", "PRICE", "SPOT", "DATE")

_CENTS_FROM = 0.1
_Kind = Literal["machine", "gpu", "slice"]


class StatedPrice(msgspec.Struct, frozen=True, rename="camel"):
    """A price of a machine type, a GPU model or a MIG instance, and its source."""

    kind: _Kind
    name: str
    provider: str
    region: str
    on_demand: float | None
    spot: float | None
    date: str
    source: str


def gpu_row(catalog: Catalog, model: GpuModel) -> Sequence[str]:
    """The cells of a GPU model."""
    nvlink = model.nvlink
    return (
        model.name,
        model.architecture,
        ".".join(map(str, model.capability)),
        f"{model.memory}Mi",
        str(model.sms) if model.sms else "?",
        f"{nvlink.links}x v{nvlink.generation}, {nvlink.bandwidth} GB/s" if nvlink else "-",
        model.mig or "-",
        format_price(catalog.gpu_price(model.name)),
        format_price(catalog.gpu_price(model.name, "spot")),
    )


def machine_row(catalog: Catalog, machine: MachineType) -> Sequence[str]:
    """The cells of a machine type."""
    return (
        machine.name,
        machine.provider or "-",
        str(machine.cpu),
        f"{machine.memory:g}Gi",
        f"{machine.gpus} x {machine.gpu}" if machine.gpus else "-",
        f"{machine.network:g} Gbit/s" if machine.network else "?",
        format_price(catalog.machine_price(machine.name)),
        format_price(catalog.machine_price(machine.name, "spot")),
    )


def list_prices(catalog: Catalog) -> list[StatedPrice]:
    """All stated prices, those of the override file first."""
    return [
        StatedPrice(
            kind,
            name,
            prices.provider or "override",
            prices.region,
            price.on_demand,
            price.spot,
            prices.date,
            prices.source,
        )
        for prices in (catalog.override_prices, *catalog.price_lists)
        for kind, name, price in _iter_prices(prices)
    ]


def _iter_prices(prices: PriceList) -> Iterator[tuple[_Kind, str, Price]]:
    for name, price in prices.machines.items():
        yield "machine", name, price
    for name, price in prices.gpus.items():
        yield "gpu", name, price
    for gpu, slices in prices.slices.items():
        for profile, price in slices.items():
            yield "slice", f"{gpu}/{profile}", price


def slice_prices(catalog: Catalog, model: GpuModel) -> Iterator[tuple[MigProfile, Price]]:
    """The MIG profiles of a model and what an instance costs."""
    geometry = geometry_named(model.mig)
    for profile in geometry.profiles if geometry is not None else ():
        yield (
            profile,
            Price(
                catalog.slice_price(model.name, profile.name),
                catalog.slice_price(model.name, profile.name, "spot"),
            ),
        )


def slice_row(profile: MigProfile, price: Price) -> Sequence[str]:
    """The cells of a MIG profile."""
    return (
        profile.name,
        str(profile.slices),
        ",".join(map(str, profile.starts)),
        str(profile.limit),
        f"{profile.memory}GB",
        str(profile.sms) if profile.sms else "?",
        format_price(price.on_demand),
        format_price(price.spot),
    )


def price_row(price: StatedPrice) -> Sequence[str]:
    """The cells of a stated price."""
    return (
        price.kind,
        price.name,
        price.provider,
        price.region or "-",
        format_price(price.on_demand),
        format_price(price.spot),
        price.date or "-",
    )


def format_price(price: float | None) -> str:
    """`$6.88`, or `$0.0832` where cents would say too little; `?` if it is unknown."""
    if price is None:
        return "?"
    return f"${price:.2f}" if price >= _CENTS_FROM or not price else f"${price:.4f}"
