"""Prices, in USD per hour: of machine types, of GPUs, and of MIG instances.

A **market** is how capacity is bought: on demand, or spot (cheaper, and may be taken back). A
**price list** is what one provider asks in one region. Lists are searched in order; a price that no
list has is unknown, and is shown as missing wherever prices are summed.

What a node costs is decided by the first of these that has it: the annotations of the node, the
override file, the catalog. Within the latter two the price of the machine type precedes that of the
GPU model.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from kilonova.catalog.machines import MachineType

Market: TypeAlias = Literal["on-demand", "spot"]
MAX_PRICE = 10_000.0
"""USD per hour. Higher values are taken for errors; they would dominate every sum."""
Usd: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_PRICE)]

GPU_PRICE_KEY = "kilonova.dev/gpu-hourly-price"
"""Annotation (or label) of a node: USD that one of its GPUs costs per hour."""
NODE_PRICE_KEY = "kilonova.dev/node-hourly-price"
"""Annotation (or label) of a node: USD that it costs per hour, with all its GPUs."""


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """USD per hour by market; None where it is not sold so, or unknown."""

    on_demand: Usd | None = None
    spot: Usd | None = None

    def on_market(self, market: Market) -> float | None:
        """The price on a market."""
        return self.spot if market == "spot" else self.on_demand


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of one provider in one region, with the date and the source of the facts.

    Machines are keyed by machine type, GPUs by GPU model, slices by GPU model and MIG profile.
    """

    provider: str = ""
    region: str = ""
    date: str = ""
    source: str = ""
    machines: dict[str, Price] = {}
    gpus: dict[str, Price] = {}
    slices: dict[str, dict[str, Price]] = {}


@dataclass(frozen=True, slots=True)
class PricedNode:
    """What the price of a node depends on. `gpu` is the name of its GPU model.

    `stated_gpu` and `stated_node` are the prices in its annotations.
    """

    machine: str = ""
    market: Market = "on-demand"
    gpu: str = ""
    gpus: int = 0
    stated_gpu: float | None = None
    stated_node: float | None = None


@dataclass(frozen=True, slots=True)
class NodePrice:
    """USD per hour of a node and of each of its GPUs; None: unknown."""

    node: float | None = None
    gpu: float | None = None


def price_node(
    node: PricedNode,
    tiers: Iterable[Sequence[PriceList]],
    machines: Mapping[str, MachineType],
) -> NodePrice:
    """The price of a node; `tiers` are price lists, those that take precedence first."""
    whole, each = node.stated_node, node.stated_gpu
    if whole is None and each is None:
        for lists in tiers:
            whole = machine_price(lists, node.machine, node.market)
            if whole is None and node.gpus and node.gpu:
                each = gpu_price(lists, machines, node.gpu, node.market)
            if whole is not None or each is not None:
                break
    if whole is None and each is not None and node.gpus:
        whole = each * node.gpus
    if each is None and whole is not None and node.gpus:
        each = whole / node.gpus
    return NodePrice(_round(whole), _round(each))


def machine_price(lists: Sequence[PriceList], machine: str, market: Market) -> float | None:
    """The price of a machine type; None if no list has it."""
    found = (each.machines[machine].on_market(market) for each in lists if machine in each.machines)
    return next((price for price in found if price is not None), None)


def gpu_price(
    lists: Sequence[PriceList], machines: Mapping[str, MachineType], gpu: str, market: Market
) -> float | None:
    """The price of one GPU: as listed, else its part of the first listed machine type with it."""
    for each in lists:
        listed = each.gpus.get(gpu)
        if listed is not None and (price := listed.on_market(market)) is not None:
            return price
    for each in lists:
        for name, listed in each.machines.items():
            machine, price = machines.get(name), listed.on_market(market)
            if machine is not None and machine.gpu == gpu and machine.gpus and price is not None:
                return _round(price / machine.gpus)
    return None


def slice_price(lists: Sequence[PriceList], gpu: str, profile: str, market: Market) -> float | None:
    """The listed price of a MIG instance; None where it follows from that of the GPU."""
    found = (each.slices[gpu].get(profile) for each in lists if gpu in each.slices)
    prices = (price.on_market(market) for price in found if price is not None)
    return next((price for price in prices if price is not None), None)


def parse_price(text: str) -> float | None:
    """The price in a label or annotation; None if missing or invalid."""
    try:
        price = float(text)
    except ValueError:
        return None
    return price if 0 <= price <= MAX_PRICE else None


def parse_market(capacity_type: str) -> Market:
    """The market that a label such as `karpenter.sh/capacity-type` names."""
    return "spot" if capacity_type.lower() == "spot" else "on-demand"


def _round(price: float | None) -> float | None:
    """To a hundredth of a cent: sums of rounded and of computed prices agree."""
    return None if price is None else round(price, 4)
