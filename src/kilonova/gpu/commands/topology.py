"""`kilonova gpu topology`: how the GPUs of this machine are connected."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from kilonova.component.command.flags import Output
from kilonova.gpu.commands.machine import Backend, read_machine

if TYPE_CHECKING:
    from kilonova.component.command.output.colours import Colour
    from kilonova.gpu.devices.model import NodeInventory
    from kilonova.gpu.topology.matrix import MatrixRow

_GAP = "  "


def topology(backend: Backend = "nvml", output: Output = "table") -> None:
    """Show how the GPUs of this machine are connected, as a matrix.

    The names of paths are those of `nvidia-smi topo -m`. The bandwidth below it is what each GPU
    exchanges with all others at once: behind an NVSwitch, that of its port.

    \b
    Examples:
      kilonova gpu topology
      kilonova gpu topology -o json | jq '.paths[] | select(.kind == "NV")'
      kilonova gpu topology --backend simulated:h100
    """
    import sys

    from kilonova.component.command.output.colours import should_use_colour
    from kilonova.component.command.output.formats import encode_as
    from kilonova.gpu.topology.bandwidth import set_bandwidth, switch_ports
    from kilonova.gpu.topology.matrix import build_matrix

    inventory = read_machine(backend).inventory
    everything = [device.index for device in inventory.devices]
    if output != "table":
        document = {
            "matrix": build_matrix(inventory),
            "paths": inventory.paths,
            "ports": switch_ports(inventory),
            "bandwidth": set_bandwidth(inventory, everything),
        }
        typer.echo(encode_as(document, output))
        return
    if not inventory.devices:
        typer.echo("no GPUs", err=True)
        return
    coloured = should_use_colour(sys.stdout)
    lines = format_matrix(build_matrix(inventory), coloured)
    typer.echo("\n".join([*lines, *_notes(inventory)]), color=coloured)


def format_matrix(rows: "Sequence[MatrixRow]", coloured: bool) -> list[str]:
    """The matrix with a legend of the kinds of paths in it."""
    from kilonova.component.command.output.colours import paint
    from kilonova.gpu.devices.model import PathKind
    from kilonova.gpu.topology.matrix import LEGEND, kind_of_label

    names = [f"GPU{row.index}" for row in rows]
    header = ["", *names, "NUMA", "PCIE SWITCH"]
    cells = [
        [
            f"GPU{row.index}",
            *row.paths,
            str(row.numa) if row.numa >= 0 else "-",
            row.pcie_switch or "-",
        ]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]

    def format_row(row: Sequence[str], painted: bool) -> str:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if painted:
            for place in range(1, len(names) + 1):
                colour = _colour_of(row[place])
                padded[place] = paint(row[place], colour) + padded[place][len(row[place]) :]
        return _GAP.join(padded).rstrip()

    lines = [format_row(header, painted=False)]
    lines += [format_row(row, painted=coloured) for row in cells]
    present = {kind_of_label(label) for row in rows for label in row.paths}
    legend = [
        f"  {'NV#' if kind is PathKind.NVLINK else kind.value:<4} {text}"
        for kind, text in LEGEND.items()
        if kind in present
    ]
    return [*lines, "", *legend] if legend else lines


def _colour_of(label: str) -> "Colour":
    from kilonova.gpu.devices.model import PathKind
    from kilonova.gpu.topology.matrix import kind_of_label

    match kind_of_label(label):
        case PathKind.NVLINK | PathKind.INTERNAL:
            return "green"
        case PathKind.PCIE_SWITCH | PathKind.PCIE_SWITCHES:
            return "blue"
        case PathKind.HOST_BRIDGE | PathKind.NODE:
            return "yellow"
        case PathKind.SYSTEM:
            return "red"
        case _:
            return "grey"


def _notes(inventory: "NodeInventory") -> list[str]:
    from kilonova.gpu.topology.bandwidth import set_bandwidth, switch_ports

    notes: list[str] = []
    bandwidth = set_bandwidth(inventory, [device.index for device in inventory.devices])
    if bandwidth:
        ports = max(switch_ports(inventory), default=0)
        how = "by its port to the NVSwitches" if ports else "over direct NVLinks"
        notes.append(f"All together: {bandwidth:.0f} GB/s for each GPU, {how}.")
    domains = sorted({each.fabric.key for each in inventory.devices if each.fabric})
    notes += [f"NVLink domain: {domain}" for domain in domains]
    return ["", *notes] if notes else []
