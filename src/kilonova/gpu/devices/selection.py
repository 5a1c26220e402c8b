"""The backend that a text names: `nvml`, `simulated:PERSONA` or `recorded:FILE`."""

from collections.abc import Callable
from pathlib import Path

from kilonova.catalog.tables import Catalog
from kilonova.gpu.devices.backend import GpuBackend

BACKENDS = "nvml, simulated:PERSONA or recorded:FILE"


def open_backend(
    text: str, catalog: Catalog, node: str = "simulated", *, profiles: bool = True
) -> GpuBackend:
    """The backend of a text; only its own code is imported. `ValueError` with what is wrong. What
    identifies simulated devices is derived from the name of the node. `profiles` indicates whether
    NVML reads profiling counters."""
    kind, separator, argument = text.partition(":")
    build = _BUILDERS.get(kind)
    if build is None or bool(separator) != bool(argument) or (kind == "nvml") == bool(argument):
        raise ValueError(f"{text or 'an empty name'}: expected {BACKENDS}")
    try:
        return build(argument, catalog, node, profiles)
    except (OSError, ValueError) as error:
        raise ValueError(f"{text}: {error}") from error


def _open_nvml(argument: str, catalog: Catalog, node: str, profiles: bool) -> GpuBackend:
    from kilonova.gpu.devices.nvml import NvmlBackend

    del argument, node
    return NvmlBackend(catalog=catalog, profiles=profiles)


def _open_simulated(argument: str, catalog: Catalog, node: str, profiles: bool) -> GpuBackend:
    from kilonova.gpu.devices.simulated import SimulatedBackend, build_machine, find_persona

    del profiles
    return SimulatedBackend(build_machine(find_persona(argument, catalog), catalog, node=node))


def _open_recorded(argument: str, catalog: Catalog, node: str, profiles: bool) -> GpuBackend:
    from kilonova.gpu.devices.recorded import RecordedBackend, read_recording

    del catalog, node, profiles
    return RecordedBackend(read_recording(Path(argument).expanduser()))


_BUILDERS: dict[str, Callable[[str, Catalog, str, bool], GpuBackend]] = {
    "nvml": _open_nvml,
    "simulated": _open_simulated,
    "recorded": _open_recorded,
}
