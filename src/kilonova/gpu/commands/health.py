"""`kilonova gpu health`: how the GPUs of this machine are."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from kilonova.component.command.flags import Output
from kilonova.component.failure import FAILED
from kilonova.gpu.commands.machine import Backend, read_machine
from kilonova.gpu.devices.model import DeviceHealth, DeviceTelemetry, HealthState

if TYPE_CHECKING:
    from kilonova.component.command.output.colours import Colour

_HEADER = ("GPU", "HEALTH", "TEMP", "POWER", "ECC", "REMAPPED", "CLOCKS LOWERED BY", "REASONS")


class GpuHealth(msgspec.Struct, frozen=True, rename="camel"):
    """The health of a device, and what was measured of it."""

    index: int
    uuid: str
    health: DeviceHealth
    telemetry: DeviceTelemetry | None = None


def health(
    backend: Backend = "nvml",
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for degraded GPUs, too.")
    ] = False,
    output: Output = "table",
) -> None:
    """Check the GPUs of this machine: memory errors, remapped rows, temperature, NVLinks.

    Exits with 1 if a GPU is unhealthy or cannot be measured.

    \b
    Examples:
      kilonova gpu health
      kilonova gpu health --strict && run-the-job
      kilonova gpu health -o json | jq '.[] | select(.health.state != "Healthy")'
    """
    import sys

    from kilonova.catalog import load_catalog
    from kilonova.component.command.output.colours import should_use_colour
    from kilonova.component.command.output.formats import encode_as
    from kilonova.gpu.health import IMMEDIATE, HealthHistory, assess_device, find_problems

    catalog = load_catalog()
    reading = read_machine(backend, with_telemetry=True)
    telemetry = {each.uuid: each for each in reading.telemetry}
    found: list[GpuHealth] = []
    for device in reading.inventory.devices:
        measured = telemetry.get(device.uuid)
        model = catalog.find_gpu(device.product, device.memory_mib)
        problems = find_problems(device, measured, model)
        state, _ = assess_device(problems, HealthHistory(), 0.0, IMMEDIATE)
        found.append(GpuHealth(device.index, device.uuid, state, measured))
    if output != "table":
        typer.echo(encode_as(found, output))
    elif found:
        coloured = should_use_colour(sys.stdout)
        typer.echo("\n".join(format_health(found, coloured)), color=coloured)
    else:
        typer.echo("no GPUs", err=True)
    tolerated = {HealthState.HEALTHY} if strict else {HealthState.HEALTHY, HealthState.DEGRADED}
    if any(each.health.state not in tolerated for each in found):
        raise typer.Exit(FAILED)


def format_health(rows: list[GpuHealth], coloured: bool) -> list[str]:
    """A table, with the state in a colour."""
    from kilonova.component.command.output.colours import paint
    from kilonova.component.command.output.formats import format_table

    lines = format_table(_HEADER, [_cells(row) for row in rows]).splitlines()
    if not coloured:
        return lines
    painted = lines[:1]
    for line, row in zip(lines[1:], rows, strict=True):
        state = row.health.state
        painted.append(line.replace(state.value, paint(state.value, _colour_of(state)), 1))
    return painted


def _colour_of(state: HealthState) -> "Colour":
    match state:
        case HealthState.HEALTHY:
            return "green"
        case HealthState.DEGRADED:
            return "yellow"
        case HealthState.UNHEALTHY | HealthState.UNKNOWN:
            return "red"


def _cells(row: GpuHealth) -> tuple[str, ...]:
    reading = row.telemetry
    reasons = "; ".join(row.health.reasons) or "-"
    if reading is None:
        return (str(row.index), row.health.state.value, "-", "-", "-", "-", "-", reasons)
    remapped = (reading.rows_remapped_corrected, reading.rows_remapped_uncorrected)
    lowered = [each for each in reading.throttle_reasons if each != "GpuIdle"]
    return (
        str(row.index),
        row.health.state.value,
        _amount(reading.temperature_celsius, "C"),
        _amount(reading.power_watts, "W"),
        _pair((reading.ecc_corrected, reading.ecc_uncorrected)),
        _pair(remapped),
        ",".join(lowered) or "-",
        reasons,
    )


def _amount(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _pair(values: tuple[int | None, int | None]) -> str:
    """Corrected and uncorrected: `3/0`."""
    if values[0] is None and values[1] is None:
        return "-"
    return "/".join("-" if each is None else str(each) for each in values)
