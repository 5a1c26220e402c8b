"""The catalog as one value: tables of files, read when first used, and what overrides them."""

import os
from functools import cached_property, lru_cache
from pathlib import Path

import msgspec

from kilonova.catalog.data import read_table
from kilonova.catalog.gpus import GpuModel, select_gpu
from kilonova.catalog.machines import MachineType
from kilonova.catalog.mig import geometry_named
from kilonova.catalog.overrides import NO_OVERRIDES, Overrides, read_overrides
from kilonova.catalog.prices import (
    Market,
    NodePrice,
    PricedNode,
    PriceList,
    gpu_price,
    machine_price,
    price_node,
    slice_price,
)

OVERRIDE_VARIABLE = "KILONOVA_CATALOG"
"""Environment variable: the path of the override file."""


class Catalog:
    """GPU models, machine types and prices. Lookups are remembered: a cluster has few products."""

    def __init__(self, overrides: Overrides = NO_OVERRIDES) -> None:
        self._overrides = overrides
        self._found_gpus: dict[tuple[str, int], GpuModel | None] = {}

    @cached_property
    def gpus(self) -> tuple[GpuModel, ...]:
        """All GPU models. One of the override file replaces the one of its name."""
        replaced = {model.name for model in self._overrides.gpus}
        table = msgspec.json.decode(read_table("gpus"), type=_GpuTable)
        known = (model for model in table.gpus if model.name not in replaced)
        return (*self._overrides.gpus, *known)

    @cached_property
    def machines(self) -> dict[str, MachineType]:
        """All machine types by name. One of the override file replaces the one of its name."""
        table = msgspec.json.decode(read_table("machines"), type=_MachineTable)
        return {machine.name: machine for machine in (*table.machines, *self._overrides.machines)}

    @cached_property
    def price_lists(self) -> tuple[PriceList, ...]:
        """The price lists of the catalog, without overrides."""
        return msgspec.json.decode(read_table("prices"), type=_PriceTable).lists

    @property
    def override_prices(self) -> PriceList:
        """The prices of the override file, with GPUs by the name of their model."""
        return self._overrides.prices

    def find_gpu(self, product: str, memory: int = 0) -> GpuModel | None:
        """The model of a product such as `NVIDIA-H100-80GB-HBM3`, of which devices have so many
        MiB of memory (0: unknown); None if the catalog has no such model."""
        key = product, memory
        if key not in self._found_gpus:
            self._found_gpus[key] = select_gpu(self.gpus, product, memory)
        return self._found_gpus[key]

    def machine_price(self, machine: str, market: Market = "on-demand") -> float | None:
        """USD per hour of a machine type; None: unknown."""
        found = (machine_price(lists, machine, market) for lists in self._price_tiers)
        return next((price for price in found if price is not None), None)

    def gpu_price(self, gpu: str, market: Market = "on-demand") -> float | None:
        """USD per hour of one GPU, by the name of its model; None: unknown."""
        found = (gpu_price(lists, self.machines, gpu, market) for lists in self._price_tiers)
        return next((price for price in found if price is not None), None)

    def slice_price(self, gpu: str, profile: str, market: Market = "on-demand") -> float | None:
        """USD per hour of a MIG instance: as listed, else its share of the GPU; None: unknown."""
        for lists in self._price_tiers:
            if (listed := slice_price(lists, gpu, profile, market)) is not None:
                return listed
        model = next((each for each in self.gpus if each.name == gpu), None)
        geometry = None if model is None else geometry_named(model.mig)
        share = None if geometry is None else geometry.device_share(profile)
        whole = self.gpu_price(gpu, market)
        return None if share is None or whole is None else round(share * whole, 4)

    def price_node(self, node: PricedNode) -> NodePrice:
        """What a node and each of its GPUs cost."""
        return price_node(node, self._price_tiers, self.machines)

    @property
    def _price_tiers(self) -> tuple[tuple[PriceList, ...], ...]:
        return (self._overrides.prices,), self.price_lists


def load_catalog() -> Catalog:
    """The catalog of this process, with the file that `KILONOVA_CATALOG` names.

    `OverrideError` if that file is invalid.
    """
    return read_catalog(os.environ.get(OVERRIDE_VARIABLE, ""))


@lru_cache(maxsize=8)
def read_catalog(override_file: str) -> Catalog:
    """The catalog with an override file, if a path is given. Each file is read once."""
    if not override_file:
        return Catalog()
    return Catalog(read_overrides(Path(override_file), Catalog().find_gpu))


class _GpuTable(msgspec.Struct, forbid_unknown_fields=True):
    date: str
    source: str
    notes: str
    gpus: tuple[GpuModel, ...]


class _MachineTable(msgspec.Struct, forbid_unknown_fields=True):
    date: str
    source: str
    notes: str
    machines: tuple[MachineType, ...]


class _PriceTable(msgspec.Struct, forbid_unknown_fields=True):
    notes: str
    lists: tuple[PriceList, ...]
