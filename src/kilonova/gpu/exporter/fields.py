"""The fields of DCGM that are exported: their names, and what they are in our telemetry.

Amounts are in DCGM's units: percent for utilisation, MiB for memory, mJ for energy, bytes per
second for PCIe, MB/s for NVLink, shares of 1 for profiling.
"""

from collections.abc import Callable, Mapping

import msgspec

from kilonova.gpu.devices.model import Activity, Device, DeviceTelemetry
from kilonova.gpu.devices.throttle_reasons import THROTTLE_REASONS
from kilonova.gpu.exporter.metrics import MetricInfo, gauge

_MEBIBYTE = 1 << 20
_MEGABYTE = 1_000_000
_THROTTLE_BITS = {name: bit for bit, name in THROTTLE_REASONS.items()}

DeviceReader = Callable[[Device, DeviceTelemetry], float | None]


class DeviceField(msgspec.Struct, frozen=True):
    """A field of a device, and how it is computed; None is not measured."""

    metric: MetricInfo
    read: DeviceReader


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _counter(name: str, help: str) -> MetricInfo:
    return MetricInfo(name, "unknown", help)


def _throttle_mask(measured: DeviceTelemetry) -> float:
    return float(sum(_THROTTLE_BITS.get(each, 0) for each in measured.throttle_reasons))


def _flag(value: bool | None) -> float | None:
    return None if value is None else float(value)


DEVICE_FIELDS: tuple[DeviceField, ...] = (
    DeviceField(
        gauge("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz)."),
        lambda device, measured: measured.sm_clock_mhz,
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz)."),
        lambda device, measured: measured.memory_clock_mhz,
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C)."),
        lambda device, measured: measured.temperature_celsius,
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C)."),
        lambda device, measured: measured.memory_temperature_celsius,
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W)."),
        lambda device, measured: measured.power_watts,
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT", "Current power limit (in W)."),
        lambda device, measured: device.power_limit_watts,
    ),
    DeviceField(
        _counter(
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            "Total energy consumption since the driver was loaded (in mJ).",
        ),
        lambda device, measured: measured.energy_millijoules,
    ),
    DeviceField(
        _counter("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "Total number of PCIe retries."),
        lambda device, measured: measured.pcie_replays,
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %)."),
        lambda device, measured: _scaled(measured.activity.memory_copy, 100),
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %)."),
        lambda device, measured: _scaled(measured.activity.encoder, 100),
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %)."),
        lambda device, measured: _scaled(measured.activity.decoder, 100),
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered."),
        lambda device, measured: measured.last_xid,
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_FB_TOTAL", "Framebuffer memory (in MiB)."),
        lambda device, measured: _scaled(measured.memory_total_bytes, 1 / _MEBIBYTE),
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_FB_RESERVED", "Framebuffer memory reserved by the driver (in MiB)."),
        lambda device, measured: _scaled(measured.memory_reserved_bytes, 1 / _MEBIBYTE),
    ),
    DeviceField(
        _counter("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "Single-bit volatile ECC errors."),
        lambda device, measured: measured.ecc_corrected,
    ),
    DeviceField(
        _counter("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Double-bit volatile ECC errors."),
        lambda device, measured: measured.ecc_uncorrected,
    ),
    DeviceField(
        _counter(
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
            "Number of remapped rows for uncorrectable errors.",
        ),
        lambda device, measured: measured.rows_remapped_uncorrected,
    ),
    DeviceField(
        _counter(
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
            "Number of remapped rows for correctable errors.",
        ),
        lambda device, measured: measured.rows_remapped_corrected,
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_ROW_REMAP_PENDING", "Whether rows wait for a reset to be remapped."),
        lambda device, measured: _flag(measured.row_remap_pending),
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed."),
        lambda device, measured: _flag(measured.row_remap_failed),
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "Traffic of all NVLinks (in MB/s)."),
        lambda device, measured: _scaled(measured.nvlink_bytes, 1 / _MEGABYTE),
    ),
    DeviceField(
        gauge("DCGM_FI_PROF_PCIE_TX_BYTES", "Bytes sent over PCIe, per second."),
        lambda device, measured: measured.pcie_sent_bytes,
    ),
    DeviceField(
        gauge("DCGM_FI_PROF_PCIE_RX_BYTES", "Bytes received over PCIe, per second."),
        lambda device, measured: measured.pcie_received_bytes,
    ),
    DeviceField(
        gauge(
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
            "Why clocks are lowered, as a mask of NVML's bits.",
        ),
        lambda device, measured: _throttle_mask(measured),
    ),
    DeviceField(
        gauge("DCGM_FI_DEV_MIG_MODE", "Whether MIG mode is enabled."),
        lambda device, measured: float(device.mig_enabled),
    ),
)
"""Fields that a device has as a whole, once, also in MIG mode."""

GPU_UTIL = gauge("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).")
FB_USED = gauge("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).")
FB_FREE = gauge("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).")

PROFILING_FIELDS: Mapping[str, MetricInfo] = {
    "gr_engine": gauge(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active."
    ),
    "sm_active": gauge(
        "DCGM_FI_PROF_SM_ACTIVE", "Ratio of cycles an SM has at least one warp assigned."
    ),
    "sm_occupancy": gauge(
        "DCGM_FI_PROF_SM_OCCUPANCY", "Ratio of warps resident on an SM to its maximum."
    ),
    "tensor": gauge(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor pipe is active."
    ),
    "dram": gauge(
        "DCGM_FI_PROF_DRAM_ACTIVE", "Ratio of cycles the device memory interface is active."
    ),
}
"""Fields of a device or, in MIG mode, of its instances; see `read_profiling`."""


def read_profiling(activity: Activity, *, has_counters: bool) -> dict[str, float]:
    """The profiling fields that are measured.

    Engine activity is that of the profiling counters, which NVML gives as utilisation on devices
    that have them, and on MIG instances. Other devices have no such field, as in DCGM.
    """
    values = {
        "gr_engine": activity.gpu if has_counters else None,
        "sm_active": activity.sm_active,
        "sm_occupancy": activity.sm_occupancy,
        "tensor": activity.tensor,
        "dram": activity.dram,
    }
    return {name: value for name, value in values.items() if value is not None}
