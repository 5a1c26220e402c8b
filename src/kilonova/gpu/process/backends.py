"""The backend of `--backend`."""

from collections.abc import Callable
from pathlib import Path

from kilonova.catalog import Catalog
from kilonova.component.failure import CommandFailed
from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.errors import GpuError

_KINDS = "nvml, simulated:PERSONA or recorded:FILE"


def open_backend(text: str, catalog: Catalog) -> GpuBackend:
    """The backend that a text names; `CommandFailed` if there is none. Only its own code is
    imported."""
    kind, separator, argument = text.partition(":")
    build = _BUILDERS.get(kind)
    if build is None or (kind != "nvml" and not argument) or (kind == "nvml" and separator):
        raise CommandFailed(f"--backend {text}: want {_KINDS}")
    try:
        return build(argument, catalog)
    except GpuError as error:
        raise CommandFailed(f"--backend {text}: {error}") from error


def _open_nvml(argument: str, catalog: Catalog) -> GpuBackend:
    from kilonova.gpu.devices.nvml import NvmlBackend

    del argument, catalog
    return NvmlBackend()


def _open_simulated(argument: str, catalog: Catalog) -> GpuBackend:
    from kilonova.gpu.devices.simulated import (
        SimulatedBackend,
        UnknownPersona,
        build_machine,
        find_persona,
    )

    try:
        return SimulatedBackend(build_machine(find_persona(argument, catalog), catalog))
    except UnknownPersona as error:
        raise CommandFailed(f"--backend simulated:{argument}: {error}") from error


def _open_recorded(argument: str, catalog: Catalog) -> GpuBackend:
    from kilonova.gpu.devices.recorded import RecordedBackend, read_recording

    del catalog
    try:
        return RecordedBackend(read_recording(Path(argument)))
    except (OSError, ValueError) as error:
        raise CommandFailed(f"--backend recorded:{argument}: {error}") from error


_BUILDERS: dict[str, Callable[[str, Catalog], GpuBackend]] = {
    "nvml": _open_nvml,
    "simulated": _open_simulated,
    "recorded": _open_recorded,
}
