"""The NVLink domain of a device, from NVML's fabric information."""

from uuid import UUID

from kilonova.gpu.devices.model import Fabric
from kilonova.gpu.devices.nvml.library import FabricInfo, Handle, reference
from kilonova.gpu.devices.nvml.session import Session

_STATES = {1: "not-started", 2: "in-progress", 3: "completed"}
_CONFIGURATION_PROBLEMS = {
    2: "incorrect system GUID",
    3: "incorrect chassis serial number",
    4: "no partition",
    5: "insufficient NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
    8: "invalid GPU state",
}
_FLAGS = (
    (0, 1, "degraded bandwidth"),
    (2, 1, "route recovery in progress"),
    (4, 1, "unhealthy route"),
    (6, 1, "access timeout recovery"),
    (12, 2, "no partition assigned"),
    (14, 2, "fabric manager is disconnected"),
)
"""The first of two bits of the health mask, the value that is a problem, and its name."""


def read_fabric(session: Session, device: Handle) -> Fabric | None:
    """The domain of a device; None if it belongs to none.

    The GPUs of one HGX board have a fabric, too, without a domain: its UUID is empty.
    """
    library = session.library
    for make in (library.c_nvmlGpuFabricInfo_v3_t, library.c_nvmlGpuFabricInfo_v2_t):
        info = make()
        if session.read(library.nvmlDeviceGetGpuFabricInfoV, device, reference(info)) is not None:
            return _convert(info)
    return None


def _convert(info: FabricInfo) -> Fabric | None:
    state = _STATES.get(info.state)
    if state is None:
        return None
    cluster = UUID(bytes=bytes(info.clusterUuid))
    return Fabric(str(cluster) if cluster.int else "", info.cliqueId, state, fabric_problems(info))


def fabric_problems(info: FabricInfo) -> tuple[str, ...]:
    """What is wrong with the fabric, from the health mask, its summary and its status."""
    mask = info.healthMask
    problems = [name for shift, value, name in _FLAGS if mask >> shift & 3 == value]
    configuration = _CONFIGURATION_PROBLEMS.get(mask >> 8 & 15)
    if configuration is not None:
        problems.append(f"incorrect configuration: {configuration}")
    summary = getattr(info, "healthSummary", 0)
    if summary in _SUMMARIES and not problems:
        problems.append(_SUMMARIES[summary])
    if info.status:
        problems.append(f"registration failed with NVML error {info.status}")
    return tuple(problems)


_SUMMARIES = {2: "unhealthy", 3: "limited capacity"}
