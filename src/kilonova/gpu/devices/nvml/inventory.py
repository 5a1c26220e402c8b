"""What a device is, read from NVML and the kernel."""

from collections.abc import Sequence
from pathlib import Path

from kilonova.api.gpu.annotations import normalize_pci_address
from kilonova.catalog.mig import geometry_named
from kilonova.catalog.tables import Catalog
from kilonova.gpu.devices.architectures import ARCHITECTURES, count_sms
from kilonova.gpu.devices.geometries import find_geometry
from kilonova.gpu.devices.model import Device, DeviceHealth, Fabric, HealthState, NvLinkPort
from kilonova.gpu.devices.nvml.fabric import read_fabric
from kilonova.gpu.devices.nvml.library import Handle
from kilonova.gpu.devices.nvml.mig import list_instances, read_profiles
from kilonova.gpu.devices.nvml.session import Session, of_device
from kilonova.gpu.devices.nvml.sysfs import SYSFS, find_pcie_switch, read_numa_node

_NVLINK_GENERATIONS = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}
"""By NVML's version of an NVLink."""
_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_NODE_SCOPE = 0
_WORDS = 16
"""Of 64 NUMA nodes each."""
_WORD_BITS = 64
_SWITCH = 2
_LINK_ERRORS = (0, 1, 2)
"""Replays, recoveries and checksum errors."""
_MEBIBYTE = 1 << 20


def read_device(
    session: Session, handle: Handle, index: int, catalog: Catalog, sysfs: Path = SYSFS
) -> Device:
    """A device as it is now. `GpuError` with its UUID if it does not answer."""
    uuid = session.call(session.library.nvmlDeviceGetUUID, handle)
    with of_device(uuid):
        return _read_device(session, handle, index, uuid, catalog, sysfs)


def _read_device(
    session: Session, handle: Handle, index: int, uuid: str, catalog: Catalog, sysfs: Path
) -> Device:
    library = session.library
    pci = session.call(library.nvmlDeviceGetPciInfo, handle)
    address = normalize_pci_address(pci.busId)
    memory = session.read(library.nvmlDeviceGetMemoryInfo, handle)
    capability = session.read(library.nvmlDeviceGetCudaComputeCapability, handle)
    architecture = session.read(library.nvmlDeviceGetArchitecture, handle) or 0
    limit = session.read(library.nvmlDeviceGetEnforcedPowerLimit, handle)
    product = session.call(library.nvmlDeviceGetName, handle)
    memory_mib = 0 if memory is None else memory.total // _MEBIBYTE
    major_minor = None if capability is None else (capability[0], capability[1])
    mode = session.read(library.nvmlDeviceGetMigMode, handle)
    profiles = [] if mode is None else read_profiles(session, handle)
    geometry = find_geometry([each.profile for each in profiles], product)
    if mode is not None and not profiles:
        # Some drivers list no profiles of an Ampere device while MIG mode is disabled.
        model = catalog.find_gpu(product, memory_mib)
        geometry = None if model is None else geometry_named(model.mig)
    is_enabled = mode is not None and mode[0] == 1
    fabric = read_fabric(session, handle)
    return Device(
        index=index,
        uuid=uuid,
        pci=address,
        pci_id=pci.pciDeviceId,
        product=product,
        architecture=ARCHITECTURES.get(architecture, ""),
        capability=major_minor,
        memory_mib=memory_mib,
        sms=count_sms(session.read(library.nvmlDeviceGetNumGpuCores, handle), major_minor),
        serial=session.read(library.nvmlDeviceGetSerial, handle) or "",
        minor=session.read(library.nvmlDeviceGetMinorNumber, handle),
        numa=_read_numa(session, handle, address, sysfs),
        pcie_switch=find_pcie_switch(address, sysfs),
        pcie_generation=session.read(library.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        pcie_width=session.read(library.nvmlDeviceGetMaxPcieLinkWidth, handle),
        max_sm_clock_mhz=session.read(library.nvmlDeviceGetMaxClockInfo, handle, _SM_CLOCK),
        max_memory_clock_mhz=session.read(library.nvmlDeviceGetMaxClockInfo, handle, _MEMORY_CLOCK),
        power_limit_watts=None if limit is None else limit / 1000,
        nvlinks=_read_nvlinks(session, handle),
        fabric=fabric if fabric is not None and fabric.cluster else None,
        geometry=geometry,
        mig_resources=tuple(each.resources for each in profiles),
        mig_enabled=is_enabled,
        mig_pending=None if mode is None or mode[0] == mode[1] else mode[1] == 1,
        instances=list_instances(session, handle, uuid, profiles) if is_enabled else (),
        health=_fabric_health(fabric),
    )


def _read_numa(session: Session, handle: Handle, address: str, sysfs: Path) -> int:
    """The NUMA node of the nearest memory, if there is one such node.

    NVML's own NUMA node of a device is another thing: that of its memory, where this is a node.
    """
    words = session.read(session.library.nvmlDeviceGetMemoryAffinity, handle, _WORDS, _NODE_SCOPE)
    nodes = [] if words is None else list_bits(words)
    return nodes[0] if len(nodes) == 1 else read_numa_node(address, sysfs)


def list_bits(words: Sequence[int]) -> list[int]:
    """The bits that are set, in words of 64."""
    return [
        index * _WORD_BITS + bit
        for index, word in enumerate(words)
        for bit in range(_WORD_BITS)
        if word >> bit & 1
    ]


def _read_nvlinks(session: Session, handle: Handle) -> tuple[NvLinkPort, ...]:
    library = session.library
    ports: list[NvLinkPort] = []
    for link in range(library.NVML_NVLINK_MAX_LINKS):
        state = session.read(library.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            continue
        if not state:
            ports.append(NvLinkPort(link, False))
            continue
        version = session.read(library.nvmlDeviceGetNvLinkVersion, handle, link) or 0
        remote = session.read(library.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        kind = session.read(library.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        errors = (
            session.read(library.nvmlDeviceGetNvLinkErrorCounter, handle, link, counter)
            for counter in _LINK_ERRORS
        )
        ports.append(
            NvLinkPort(
                link,
                True,
                _NVLINK_GENERATIONS.get(version, 0),
                "" if remote is None else normalize_pci_address(remote.busId),
                kind == _SWITCH,
                sum(each or 0 for each in errors),
            )
        )
    return tuple(ports)


def _fabric_health(fabric: Fabric | None) -> DeviceHealth:
    """Without a complete fabric, CUDA does not start on a device behind NVSwitches."""
    if fabric is None:
        return DeviceHealth()
    if fabric.state != "completed":
        reasons = (f"NVLink fabric: {fabric.state}", *fabric.problems)
        return DeviceHealth(HealthState.UNHEALTHY, reasons, is_transient=True)
    if fabric.problems:
        reasons = tuple(f"NVLink fabric: {each}" for each in fabric.problems)
        return DeviceHealth(HealthState.DEGRADED, reasons, is_transient=True)
    return DeviceHealth()
