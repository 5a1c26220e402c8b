"""Telemetry from samples of DCGM, by the names and labels of NVIDIA's exporter. Pure.

With MIG, the exporter repeats what is known of a device alone (power, temperature …) for each of
its instances, with the labels `GPU_I_ID` and `GPU_I_PROFILE`; activity and memory are those of the
instance, relative to what it has. A field that DCGM could not read is a blank value: very large.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from kilonova.gpu.devices.dcgm.samples import DcgmSample
from kilonova.gpu.devices.model import Activity, DeviceTelemetry, InstanceTelemetry
from kilonova.gpu.devices.throttle_reasons import list_throttle_reasons

FindInstance = Callable[[str, int], str]
"""The UUID of a MIG instance by that of its device and the id of its GPU instance; empty if it is
not known: the exporter does not report it."""

_MEBIBYTE = 1 << 20
_BLANK = 2**31 - 16
_LARGE_BLANK = 2**63 - 1024
_COUNTERS_BEYOND_BLANK = frozenset(
    {
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "DCGM_FI_PROF_NVLINK_TX_BYTES",
        "DCGM_FI_PROF_NVLINK_RX_BYTES",
    }
)
"""Whose values may be larger than the blank of 32 bits."""

_SHARES = MappingProxyType(
    {
        "DCGM_FI_DEV_GPU_UTIL": ("gpu", 0.01),
        "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_copy", 0.01),
        "DCGM_FI_DEV_ENC_UTIL": ("encoder", 0.01),
        "DCGM_FI_DEV_DEC_UTIL": ("decoder", 0.01),
        "DCGM_FI_PROF_SM_ACTIVE": ("sm_active", 1.0),
        "DCGM_FI_PROF_SM_OCCUPANCY": ("sm_occupancy", 1.0),
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor", 1.0),
        "DCGM_FI_PROF_DRAM_ACTIVE": ("dram", 1.0),
    }
)
"""The field of an activity, and what makes a share of the value."""
_GRAPHICS_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_FB_USED, _FB_FREE, _FB_RESERVED = (
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_RESERVED",
)


class _Group(msgspec.Struct):
    """The values of a device, or of an instance, by the name of their metric."""

    values: dict[str, float] = {}

    def number(self, name: str) -> float | None:
        return self.values.get(name)

    def whole(self, name: str) -> int | None:
        value = self.values.get(name)
        return None if value is None else int(value)

    def flag(self, name: str) -> bool | None:
        value = self.values.get(name)
        return None if value is None else value > 0


def convert_samples(
    samples: Sequence[DcgmSample], find_instance: FindInstance
) -> tuple[DeviceTelemetry, ...]:
    """Telemetry of each device, by UUID."""
    devices: dict[str, _Group] = {}
    instances: dict[str, dict[int, _Group]] = {}
    for sample in samples:
        if not sample.uuid or is_blank(sample):
            continue
        device = devices.setdefault(sample.uuid, _Group())
        if sample.gpu_instance is None:
            device.values[sample.name] = sample.value
            continue
        # A value of an instance that is none is that of its device, unless that has its own.
        group = instances.setdefault(sample.uuid, {}).setdefault(sample.gpu_instance, _Group())
        group.values[sample.name] = sample.value
        if not _is_of_instance(sample.name):
            device.values.setdefault(sample.name, sample.value)
    return tuple(
        _convert(uuid, group, instances.get(uuid, {}), find_instance)
        for uuid, group in sorted(devices.items())
    )


def is_blank(sample: DcgmSample) -> bool:
    """Whether DCGM could not read a field."""
    limit = _LARGE_BLANK if sample.name in _COUNTERS_BEYOND_BLANK else _BLANK
    return not math.isfinite(sample.value) or sample.value >= limit


def _is_of_instance(name: str) -> bool:
    return name in _SHARES or name.startswith(("DCGM_FI_PROF_", "DCGM_FI_DEV_FB_"))


def _convert(
    uuid: str, group: _Group, instances: Mapping[int, _Group], find_instance: FindInstance
) -> DeviceTelemetry:
    used, total, reserved = _memory(group)
    nvlink = [
        value
        for name in ("DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES")
        if (value := group.number(name)) is not None
    ]
    throttled = group.whole("DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
    if throttled is None:
        throttled = group.whole("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
    return DeviceTelemetry(
        uuid=uuid,
        activity=_activity(group),
        memory_used_bytes=used,
        memory_total_bytes=total,
        memory_reserved_bytes=reserved,
        power_watts=group.number("DCGM_FI_DEV_POWER_USAGE"),
        energy_millijoules=group.whole("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
        temperature_celsius=group.number("DCGM_FI_DEV_GPU_TEMP"),
        memory_temperature_celsius=group.number("DCGM_FI_DEV_MEMORY_TEMP"),
        sm_clock_mhz=group.whole("DCGM_FI_DEV_SM_CLOCK"),
        memory_clock_mhz=group.whole("DCGM_FI_DEV_MEM_CLOCK"),
        pcie_sent_bytes=group.whole("DCGM_FI_PROF_PCIE_TX_BYTES"),
        pcie_received_bytes=group.whole("DCGM_FI_PROF_PCIE_RX_BYTES"),
        pcie_replays=group.whole("DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
        nvlink_bytes=int(sum(nvlink)) if nvlink else None,
        throttle_reasons=list_throttle_reasons(throttled or 0),
        ecc_corrected=group.whole("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"),
        ecc_uncorrected=group.whole("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
        rows_remapped_corrected=group.whole("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
        rows_remapped_uncorrected=group.whole("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
        row_remap_pending=group.flag("DCGM_FI_DEV_ROW_REMAP_PENDING"),
        row_remap_failed=group.flag("DCGM_FI_DEV_ROW_REMAP_FAILURE"),
        last_xid=group.whole("DCGM_FI_DEV_XID_ERRORS") or 0,
        instances=tuple(
            InstanceTelemetry(
                find_instance(uuid, number),
                number,
                *_memory(instance)[:2],
                _activity(instance),
            )
            for number, instance in sorted(instances.items())
        ),
    )


def _activity(group: _Group) -> Activity:
    found = {
        field: min(max(value * factor, 0.0), 1.0)
        for name, (field, factor) in _SHARES.items()
        if (value := group.number(name)) is not None
    }
    activity = replace(Activity(), **found)
    graphics = group.number(_GRAPHICS_ACTIVE)
    # NVML's utilisation does not exist in MIG mode; the engine's activity does.
    return activity if activity.gpu is not None else replace(activity, gpu=graphics)


def _memory(group: _Group) -> tuple[int | None, int | None, int | None]:
    """Used, total and reserved bytes."""
    used, free, reserved = (group.whole(name) for name in (_FB_USED, _FB_FREE, _FB_RESERVED))
    total = None if used is None or free is None else used + free + (reserved or 0)
    mebibytes = (used, total, reserved)
    found = tuple(None if each is None else each * _MEBIBYTE for each in mebibytes)
    return found[0], found[1], found[2]
