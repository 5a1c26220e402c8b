"""Why the clocks of a device are below their maximum, as NVML and DCGM encode it."""

THROTTLE_REASONS = {
    0x1: "GpuIdle",
    0x2: "ApplicationsClocksSetting",
    0x4: "SwPowerCap",
    0x8: "HwSlowdown",
    0x10: "SyncBoost",
    0x20: "SwThermalSlowdown",
    0x40: "HwThermalSlowdown",
    0x80: "HwPowerBrakeSlowdown",
    0x100: "DisplayClockSetting",
}
"""By their bit."""


def list_throttle_reasons(mask: int) -> tuple[str, ...]:
    """The reasons of a mask, by their bit."""
    return tuple(name for bit, name in THROTTLE_REASONS.items() if mask & bit)
