"""Machines behind the fake driver: a recorded H200, and some that are made up."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kilonova.catalog import Catalog
from kilonova.gpu.devices.nvml import NvmlBackend
from tests.gpu.devices.machines import FakeTime
from tests.gpu.devices.nvml.fake_driver import (
    A100_PROFILES,
    MIB,
    Code,
    FakeDriver,
    FakeGpu,
    Link,
    Profile,
)
from tests.gpu.devices.nvml.fake_library import INVALID_ARGUMENT, NOT_SUPPORTED, connect

CATALOG = Catalog()
_HERE = Path(__file__).parents[4]


def open_backend(
    driver: FakeDriver, tmp_path: Path | None = None, time: FakeTime | None = None, **more: Any
) -> NvmlBackend:
    clock = time or FakeTime()
    return NvmlBackend(
        library=connect(driver),
        catalog=CATALOG,
        sysfs=tmp_path or Path("/nowhere"),
        now=clock.now,
        sleep=clock.sleep,
        **more,
    )


def one_h100(**more: Any) -> tuple[FakeDriver, FakeGpu]:
    gpu = FakeGpu("GPU-00000000-0000-0000-0000-000000000001", **more)
    return FakeDriver(gpu), gpu


def hgx_h100(count: int = 8) -> FakeDriver:
    """GPUs behind NVSwitches: all 18 links of each lead to a switch."""
    gpus = [
        FakeGpu(
            f"GPU-00000000-0000-0000-0000-00000000000{index}",
            pci=f"00000000:{0x18 + index:02X}:00.0",
            minor=index,
            numa_nodes=(index // 4,),
            links=[Link("00000000:FF:00.0", kind=2) for _ in range(18)],
        )
        for index in range(count)
    ]
    pairs = {(a, b): 0 for a in range(count) for b in range(a + 1, count)}
    return FakeDriver(*gpus, p2p=pairs, ancestors=dict.fromkeys(pairs, 40))


def a100_board() -> FakeDriver:
    """Four GPUs with four NVLinks between any two."""
    addresses = [f"00000000:0{index + 1}:00.0" for index in range(4)]
    gpus = [
        FakeGpu(
            f"GPU-00000000-0000-0000-0000-00000000000{index}",
            name="NVIDIA A100-SXM4-80GB",
            pci=addresses[index],
            architecture=7,
            capability=(8, 0),
            cores=6912,
            memory=(81920 * MIB, 0, 0),
            profiles=list(A100_PROFILES),
            needs_reset_for_mig=True,
            links=[
                Link(address, kind=0, version=4)
                for address in addresses
                if address != addresses[index]
                for _ in range(4)
            ],
        )
        for index in range(4)
    ]
    pairs = {(a, b): 0 for a in range(4) for b in range(a + 1, 4)}
    return FakeDriver(*gpus, p2p=pairs)


def recorded_h200() -> FakeDriver:
    """The H200 whose readings are in the data folder; skips the test without it."""
    folder = Path(os.environ.get("KILONOVA_DATA", _HERE.parent / "shared" / "data"))
    file = folder / "h200" / "nvml.json"
    if not file.exists():
        pytest.skip(f"no readings of an H200 in {folder}: set KILONOVA_DATA")
    read = json.loads(file.read_text())["gpu0"]
    return FakeDriver(
        FakeGpu(
            read["UUID"],
            name=read["Name"],
            pci=read["pci"]["busId"],
            pci_id=read["pci"]["deviceId"],
            serial=_value(read["Serial"]),
            minor=_value(read["MinorNumber"]),
            architecture=read["Architecture"],
            capability=tuple(read["CudaComputeCapability"]),
            cores=read["NumGpuCores"],
            memory=(read["memory"]["total"], read["memory"]["used"], 0),
            pcie=(read["MaxPcieLinkGeneration"], read["MaxPcieLinkWidth"]),
            power=read["PowerUsage"],
            power_limit=read["EnforcedPowerLimit"],
            temperature=read["temp"],
            fabric=(read["fabric"]["state"], 0, 0, bytes(16), 0, 0),
            mig=tuple(read["MigMode"]),
            profiles=[
                Profile(
                    int(index),
                    each["id"],
                    each["name"],
                    each["sliceCount"],
                    each["placements"][0][1],
                    tuple(start for start, _ in each["placements"]),
                    each["instanceCount"],
                    each["multiprocessorCount"],
                    each["memorySizeMB"],
                    each["ofaCount"],
                )
                for index, each in read["migProfilesBefore"].items()
                if isinstance(each, dict)
            ],
        )
    )


def _value(read: Any) -> Any:
    """A recorded value; `!…` is an error of NVML."""
    if isinstance(read, str) and read.startswith("!"):
        return Code(NOT_SUPPORTED if "NotSupported" in read else INVALID_ARGUMENT)
    return read
