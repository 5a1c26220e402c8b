"""Compares readings of the product with `nvidia-smi --query-gpu` of the same moment."""

from collections.abc import Callable
from dataclasses import dataclass

from kilonova.api.gpu.annotations import normalize_pci_address
from kilonova.gpu.devices.model import Device, DeviceTelemetry
from tools.hardware.rig import Rig
from tools.hardware.transcript import Transcript

_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Field:
    """A field of nvidia-smi, what the product reports of it, and how far both may be apart."""

    name: str
    read: Callable[[Device, DeviceTelemetry], object]
    tolerance: float = 0.0


def _mib(value: int | None) -> float | None:
    return None if value is None else value / _MEBIBYTE


def _percent(value: float | None) -> float | None:
    return None if value is None else value * 100


FIELDS = (
    Field("name", lambda device, _: device.product),
    Field("uuid", lambda device, _: device.uuid),
    Field("pci.bus_id", lambda device, _: device.pci),
    Field("serial", lambda device, _: device.serial),
    Field("compute_cap", lambda device, _: ".".join(map(str, device.capability or ()))),
    Field("memory.total", lambda device, _: float(device.memory_mib), 1),
    Field("memory.reserved", lambda _, reading: _mib(reading.memory_reserved_bytes), 64),
    Field("memory.used", lambda _, reading: _mib(reading.memory_used_bytes), 64),
    Field("utilization.gpu", lambda _, reading: _percent(reading.activity.gpu), 15),
    Field("utilization.memory", lambda _, reading: _percent(reading.activity.memory_copy), 15),
    Field("power.draw", lambda _, reading: reading.power_watts, 60),
    Field("power.limit", lambda device, _: device.power_limit_watts, 1),
    Field("temperature.gpu", lambda _, reading: reading.temperature_celsius, 5),
    Field("temperature.memory", lambda _, reading: reading.memory_temperature_celsius, 5),
    Field("clocks.sm", lambda _, reading: reading.sm_clock_mhz, 300),
    Field("clocks.mem", lambda _, reading: reading.memory_clock_mhz, 50),
    Field("clocks.max.sm", lambda device, _: device.max_sm_clock_mhz),
    Field("clocks.max.mem", lambda device, _: device.max_memory_clock_mhz),
    Field("pcie.link.gen.max", lambda device, _: device.pcie_generation),
    Field("pcie.link.width.max", lambda device, _: device.pcie_width),
    Field("ecc.errors.corrected.volatile.total", lambda _, reading: reading.ecc_corrected),
    Field("ecc.errors.uncorrected.volatile.total", lambda _, reading: reading.ecc_uncorrected),
)
_ABSENT = ("", "N/A", "[N/A]", "[Not Supported]", "[Not Available]")


def compare_with_smi(
    rig: Rig, transcript: Transcript, device: Device, reading: DeviceTelemetry, title: str
) -> None:
    """Print both, and check each field."""
    query = ",".join(field.name for field in FIELDS)
    code, output = rig.run(
        ("nvidia-smi", "-i", device.uuid, f"--query-gpu={query}", "--format=csv,noheader,nounits")
    )
    if not transcript.check(f"nvidia-smi answers ({title})", code == 0, "" if not code else output):
        return
    cells = [each.strip() for each in output.strip().splitlines()[0].split(",")]
    rows: list[tuple[object, ...]] = []
    differing: list[str] = []
    for field, theirs in zip(FIELDS, cells, strict=True):
        ours = field.read(device, reading)
        agrees = values_agree(field, ours, theirs)
        if not agrees:
            differing.append(field.name)
        within = f"±{field.tolerance:g}" if field.tolerance else "equal"
        rows.append((field.name, _show(ours), theirs, within, "ok" if agrees else "**differs**"))
    transcript.write("")
    transcript.table(("field", "kilonova", "nvidia-smi", "expected", ""), rows)
    transcript.check(
        f"measurements agree with nvidia-smi ({title})", not differing, ", ".join(differing)
    )


def values_agree(field: Field, ours: object, theirs: str) -> bool:
    """Whether two readings of a field agree."""
    if theirs in _ABSENT:
        return ours in (None, "")
    if isinstance(ours, int | float):
        try:
            return abs(ours - float(theirs)) <= field.tolerance
        except ValueError:
            return False
    if field.name == "pci.bus_id":
        theirs = normalize_pci_address(theirs)
    return str(ours) == theirs


def _show(value: object) -> str:
    return (
        f"{value:.1f}" if isinstance(value, float) else "-" if value in (None, "") else str(value)
    )
