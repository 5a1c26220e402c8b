"""Facts about hardware and money, and nothing else.

The tables are files in `data`, each with the date and the source of its facts; they are read when
first used. `load_catalog()` returns them as a `Catalog`:

- **GPU models** by product name (`gpus`): memory, multiprocessors, NVLink, architecture;
- **machine types** (`machines`): what clouds call an instance type, with or without GPUs;
- **prices** (`prices`) on demand and spot, of machine types, GPUs and MIG instances.

An **override file** (`overrides`), named by `KILONOVA_CATALOG`, takes precedence over the tables.
`mig` has the MIG geometry of each model that supports it, `wiring` the NVLinks between the GPUs of
a machine, `xids` what the error codes of the driver mean, `gpu_features` the labels of GPU feature
discovery.

Nothing of Kilonova but `yaml_files` is imported here, so that every package may read it.
"""

from kilonova.catalog.gpus import GpuModel, NvLink
from kilonova.catalog.machines import MachineType
from kilonova.catalog.overrides import OverrideError
from kilonova.catalog.prices import NodePrice, Price, PricedNode, PriceList
from kilonova.catalog.tables import OVERRIDE_VARIABLE, Catalog, load_catalog, read_catalog

__all__ = [
    "OVERRIDE_VARIABLE",
    "Catalog",
    "GpuModel",
    "MachineType",
    "NodePrice",
    "NvLink",
    "OverrideError",
    "Price",
    "PriceList",
    "PricedNode",
    "load_catalog",
    "read_catalog",
]
