"""`kilonova gpu discover`: the GPUs of this machine."""

from typing import TYPE_CHECKING

import typer

from kilonova.component.command.flags import Output
from kilonova.gpu.commands.machine import Backend, read_machine

if TYPE_CHECKING:
    from kilonova.gpu.devices.model import Device

_HEADER = (
    *("GPU", "PRODUCT", "ARCH", "MEMORY", "SMS", "NVLINK", "NUMA", "PCI", "MIG", "HEALTH", "UUID"),
)


def discover(backend: Backend = "nvml", output: Output = "table") -> None:
    """Show the GPUs of this machine: memory, NVLinks, MIG mode and instances, health.

    With -o json, everything that the driver reports is printed, measurements included; such a file
    is a recording, for --backend recorded:FILE.

    \b
    Examples:
      kilonova gpu discover
      kilonova gpu discover -o json > gpu-1.json
      kilonova gpu discover --backend recorded:gpu-1.json
      kilonova gpu discover --backend simulated:gb200-nvl72
    """
    from kilonova.component.command.output.formats import encode_as, format_table, pluralize

    is_table = output == "table"
    reading = read_machine(backend, with_telemetry=not is_table)
    if output != "table":
        typer.echo(encode_as(reading, output))
        return
    inventory = reading.inventory
    if not inventory.devices:
        typer.echo("no GPUs", err=True)
        return
    driver = f", driver {inventory.driver}" if inventory.driver else ""
    cuda = f", CUDA {inventory.cuda}" if inventory.cuda else ""
    typer.echo(f"{pluralize(len(inventory.devices), 'GPU')}{driver}{cuda}")
    typer.echo(format_table(_HEADER, [_cells(device) for device in inventory.devices]))
    instances = [
        (str(device.index), each.profile, str(each.start), str(each.slices), each.uuid)
        for device in inventory.devices
        for each in device.instances
    ]
    if instances:
        typer.echo("")
        typer.echo(format_table(("GPU", "PROFILE", "START", "SLICES", "UUID"), instances))


def _cells(device: "Device") -> tuple[str, ...]:
    active = sum(link.is_active for link in device.nvlinks)
    links = f"{active}/{len(device.nvlinks)}" if device.nvlinks else "-"
    mode = "-"
    if device.geometry is not None:
        mode = f"on ({len(device.instances)})" if device.mig_enabled else "off"
        if device.mig_pending is not None:
            mode = f"{mode}, {'on' if device.mig_pending else 'off'} after a reset"
    return (
        str(device.index),
        device.product or "-",
        device.architecture or "-",
        f"{device.memory_mib / 1024:.0f}Gi" if device.memory_mib else "-",
        str(device.sms or "-"),
        links,
        str(device.numa) if device.numa >= 0 else "-",
        device.pci or "-",
        mode,
        device.health.state.value,
        device.uuid,
    )
