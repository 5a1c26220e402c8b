"""The GPUs of this machine, or of another backend, for the commands that show them."""

from typing import Annotated

import msgspec
import typer

from kilonova.component.failure import CommandFailed
from kilonova.gpu.devices.model import DeviceTelemetry, NodeInventory

Backend = Annotated[
    str,
    typer.Option(
        "--backend",
        "-b",
        metavar="nvml|simulated:PERSONA|recorded:FILE",
        help="The way to the GPUs: the driver of this machine, simulated hardware (`h100`, "
        "`a100-40:4`, `gb200-nvl72`), or recorded readings.",
    ),
]


class Reading(msgspec.Struct, frozen=True):
    """What is known of the GPUs of a machine; a recording has the same form."""

    inventory: NodeInventory
    telemetry: tuple[DeviceTelemetry, ...] = ()


def read_machine(backend: str, *, with_telemetry: bool = False) -> Reading:
    """Read the GPUs. `CommandFailed` with what to do where that is not possible."""
    from kilonova.catalog import OverrideError, load_catalog
    from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
    from kilonova.gpu.devices.selection import open_backend

    try:
        opened = open_backend(backend, load_catalog())
    except (ValueError, OverrideError) as error:
        raise CommandFailed(f"--backend {error}") from error
    try:
        inventory = opened.read_inventory()
        telemetry = tuple(opened.read_telemetry()) if with_telemetry else ()
    except GpuError as error:
        if error.kind is GpuErrorKind.DRIVER_NOT_FOUND:
            raise CommandFailed(
                f"no NVIDIA driver on this machine: {error.detail}; to look at another machine, "
                "use --backend recorded:FILE, or --backend simulated:h100 for simulated GPUs"
            ) from error
        raise CommandFailed(f"the GPUs cannot be read: {error}") from error
    finally:
        opened.close()
    return Reading(inventory, telemetry)
