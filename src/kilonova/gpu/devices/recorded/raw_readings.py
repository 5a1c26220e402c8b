"""Raw readings: the results of NVML functions of each device, by the name of the function without
`nvmlDeviceGet`, and MIG profiles by their index. A text that begins with `!` is an error."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from kilonova.api.gpu.annotations import normalize_pci_address
from kilonova.catalog.mig import MigProfile
from kilonova.gpu.devices.architectures import ARCHITECTURES, count_sms
from kilonova.gpu.devices.geometries import build_profile, find_geometry, profile_order
from kilonova.gpu.devices.model import Device, DeviceTelemetry, MigResources, NodeInventory

T = TypeVar("T")

_MEBIBYTE = 1 << 20


class RawMachine(msgspec.Struct, frozen=True):
    """The driver: its version, and CUDA's as a number."""

    driver: str = ""
    cuda: int = 0


class _Memory(msgspec.Struct, frozen=True):
    total: int = 0
    used: int = 0


class _Pci(msgspec.Struct, frozen=True, rename="camel"):
    bus_id: str
    device_id: int = 0


class _Profile(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    placements: tuple[tuple[int, int], ...]
    slice_count: int
    instance_count: int
    multiprocessor_count: int = 0
    copy_engine_count: int = 0
    decoder_count: int = 0
    encoder_count: int = 0
    jpeg_count: int = 0
    ofa_count: int = 0
    memory_size_mb: int = msgspec.field(default=0, name="memorySizeMB")

    @property
    def short_name(self) -> str:
        """As in resource names: without `MIG `."""
        return self.name.removeprefix("MIG ")

    @property
    def profile(self) -> MigProfile:
        """As the catalog describes it."""
        return build_profile(
            self.short_name,
            self.slice_count,
            self.placements,
            self.instance_count,
            self.multiprocessor_count,
        )


def convert_machine(
    machine: RawMachine, gpus: Sequence[Mapping[str, object]]
) -> tuple[NodeInventory, tuple[DeviceTelemetry, ...]]:
    """The devices, and what was measured of each."""
    devices = tuple(_convert_device(index, gpu) for index, gpu in enumerate(gpus))
    cuda = f"{machine.cuda // 1000}.{machine.cuda % 1000 // 10}" if machine.cuda else ""
    telemetry = tuple(
        _convert_telemetry(device, gpu) for device, gpu in zip(devices, gpus, strict=True)
    )
    return NodeInventory(devices, (), machine.driver, cuda, "recorded"), telemetry


def _convert_device(index: int, gpu: Mapping[str, object]) -> Device:
    pci = _read(gpu, "pci", _Pci)
    memory = _read(gpu, "memory", _Memory)
    capability = _read(gpu, "CudaComputeCapability", tuple[int, int])
    cores = _read(gpu, "NumGpuCores", int)
    mode = _read(gpu, "MigMode", tuple[int, int])
    limit = _read(gpu, "EnforcedPowerLimit", int)
    profiles = _read_profiles(gpu)
    return Device(
        index=index,
        uuid=_read(gpu, "UUID", str) or f"GPU-recorded-{index}",
        pci=normalize_pci_address(pci.bus_id) if pci else "",
        pci_id=pci.device_id if pci else 0,
        product=_read(gpu, "Name", str) or "",
        architecture=ARCHITECTURES.get(_read(gpu, "Architecture", int) or 0, ""),
        capability=capability,
        memory_mib=memory.total // _MEBIBYTE if memory else 0,
        sms=count_sms(cores, capability),
        serial=_read(gpu, "Serial", str) or "",
        minor=_read(gpu, "MinorNumber", int),
        pcie_generation=_read(gpu, "MaxPcieLinkGeneration", int),
        pcie_width=_read(gpu, "MaxPcieLinkWidth", int),
        power_limit_watts=None if limit is None else limit / 1000,
        geometry=find_geometry([each.profile for each in profiles], _read(gpu, "Name", str) or ""),
        mig_resources=tuple(
            MigResources(
                each.short_name,
                each.memory_size_mb,
                each.multiprocessor_count,
                each.copy_engine_count,
                each.decoder_count,
                each.encoder_count,
                each.jpeg_count,
                each.ofa_count,
            )
            for each in profiles
        ),
        mig_enabled=mode is not None and mode[0] == 1,
        mig_pending=None if mode is None or mode[0] == mode[1] else mode[1] == 1,
    )


def _convert_telemetry(device: Device, gpu: Mapping[str, object]) -> DeviceTelemetry:
    memory, power = _read(gpu, "memory", _Memory), _read(gpu, "PowerUsage", int)
    return DeviceTelemetry(
        device.uuid,
        memory_used_bytes=memory.used if memory else None,
        memory_total_bytes=memory.total if memory else None,
        power_watts=None if power is None else power / 1000,
        temperature_celsius=_read(gpu, "temp", int),
    )


def _read(gpu: Mapping[str, object], key: str, type_: type[T]) -> T | None:
    """A reading of a type; None if it is missing or an error."""
    value = gpu.get(key)
    if value is None or (isinstance(value, str) and value.startswith("!")):
        return None
    return msgspec.convert(value, type=type_)


def _read_profiles(gpu: Mapping[str, object]) -> list[_Profile]:
    """The profiles before MIG mode was enabled: those after are the same."""
    read = _read(gpu, "migProfilesBefore", dict[str, object]) or {}
    found = [
        msgspec.convert(each, type=_Profile)
        for each in read.values()
        if each and not isinstance(each, str)
    ]
    return sorted(
        (each for each in found if each.placements), key=lambda each: profile_order(each.profile)
    )
