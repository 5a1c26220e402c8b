"""Machines with GPUs as inventories: of a persona, or of what a Node publishes. Pure."""

from collections.abc import Callable, Sequence
from itertools import groupby
from uuid import UUID, uuid5

from msgspec.structs import replace

from kilonova.api.gpu import annotations as gpu_annotations
from kilonova.api.gpu.annotations import Topology
from kilonova.catalog import Catalog, GpuModel
from kilonova.catalog.mig import MigGeometry, MigProfile, geometry_named
from kilonova.catalog.wiring import link_gpus, nvswitch_bandwidth
from kilonova.gpu.devices.model import (
    Device,
    Fabric,
    MigInstance,
    MigResources,
    NodeInventory,
    NvLinkPort,
)
from kilonova.gpu.devices.paths import LINK_BANDWIDTH, connect_devices
from kilonova.gpu.devices.simulated.personas import BOARDS, BoardFacts, Persona, find_models

DRIVER = "580.159.04"
CUDA = "13.0"
_NAMESPACE = UUID("9d0c1c3e-0b6c-5a3c-8e0f-3b7f4c1d2a90")
_FIRST_BUS = 0x18
_BUS_STEP = 3


def build_machine(
    persona: Persona,
    catalog: Catalog,
    *,
    node: str = "simulated",
    derive_uuid: Callable[[int], str] | None = None,
) -> NodeInventory:
    """The machine of a persona. What identifies its devices is derived from the name of the node,
    or by `derive_uuid` from the index."""
    models = find_models(persona, catalog)

    def identify(index: int) -> str:
        return derive_uuid(index) if derive_uuid else f"GPU-{uuid5(_NAMESPACE, f'{node}/{index}')}"

    devices: list[Device] = []
    for _, group in groupby(enumerate(models), key=lambda each: each[1].name):
        indices, alike = zip(*group, strict=True)
        devices += _build_devices(alike[0], indices, len(models), identify)
    if persona.domain:
        fabric = Fabric(persona.domain, 0)
        devices = [replace(device, fabric=fabric) for device in devices]
    return _build_inventory(devices)


def machine_from_topology(topology: Topology, catalog: Catalog) -> NodeInventory:
    """The machine that a Node's annotation describes, as far as it does; the catalog adds what it
    knows of the models."""
    devices: list[Device] = []
    for index, gpu in enumerate(topology.gpus):
        product = topology.product if gpu.product is None else gpu.product
        memory = topology.memory if gpu.memory is None else gpu.memory
        model = catalog.find_gpu(product, memory) or GpuModel(product, "", (0, 0), memory)
        architecture = topology.architecture if gpu.architecture is None else gpu.architecture
        port = topology.port if gpu.port is None else gpu.port
        device = replace(
            _describe_model(model, index),
            uuid=gpu.uuid,
            pci=gpu.pci or _derive_pci(index),
            product=product.replace("-", " "),
            architecture=architecture or model.architecture,
            memory_mib=memory or model.memory,
            sms=(topology.sms if gpu.sms is None else gpu.sms) or model.sms or None,
            numa=gpu.numa,
            pcie_switch=gpu.pcie,
            geometry=_find_geometry(topology, gpu),
            mig_enabled=gpu.mig_enabled,
        )
        device = replace(device, nvlinks=_switch_ports(_nvlink_version(device, model), port))
        device = replace(device, mig_resources=_list_resources(device))
        devices.append(replace(device, instances=_convert_instances(device, gpu.instances)))
    return _build_inventory(_add_direct_links(devices, topology.links))


def instance_uuid(device: str, profile: str, start: int) -> str:
    """The UUID of a MIG instance: the same again where it is created again."""
    return f"MIG-{uuid5(_NAMESPACE, f'{device}/{profile}@{start}')}"


def build_instance(device: Device, profile: MigProfile, start: int) -> MigInstance:
    """An instance with the ids and resources that the driver would give it."""
    found = next((each for each in device.mig_resources if each.profile == profile.name), None)
    return MigInstance(
        uuid=instance_uuid(device.uuid, profile.name, start),
        profile=profile.name,
        start=start,
        slices=profile.slices,
        gpu_instance=_FIRST_IDS.get(profile.slices, 0) + start // profile.slices,
        memory_mib=0 if found is None else found.memory_mib,
        sms=profile.sms,
    )


_FIRST_IDS = {8: 0, 4: 1, 2: 3, 1: 7}
"""The driver numbers GPU instances by their size, from the largest one."""


def _build_inventory(devices: Sequence[Device]) -> NodeInventory:
    return NodeInventory(
        tuple(devices), connect_devices(devices), driver=DRIVER, cuda=CUDA, backend="simulated"
    )


def _build_devices(
    model: GpuModel, indices: Sequence[int], count: int, identify: Callable[[int], str]
) -> list[Device]:
    """Devices of one model: two sockets with the same number of GPUs each."""
    pairs = (count + 1) // 2
    port = nvswitch_bandwidth(model, len(indices))
    devices: list[Device] = []
    for index in indices:
        pair = index // 2
        device = replace(
            _describe_model(model, index),
            uuid=identify(index),
            numa=pair * 2 // pairs,
            pcie_switch=f"sw{pair}" if model.shares_pcie_switch else "",
            nvlinks=_switch_ports(model.nvlink.generation if model.nvlink else 0, port),
        )
        devices.append(replace(device, mig_resources=_list_resources(device)))
    offset = indices[0]
    links = [(a + offset, b + offset, speed) for a, b, speed in link_gpus(model, len(indices))]
    return _add_direct_links(devices, links)


def _describe_model(model: GpuModel, index: int) -> Device:
    board = BOARDS.get(model.name, BoardFacts())
    product = model.products[0] if model.products else model.name
    return Device(
        index=index,
        uuid="",
        pci=_derive_pci(index),
        pci_id=board.pci_id,
        product=product.replace("-", " "),
        architecture=model.architecture,
        capability=model.capability,
        memory_mib=model.memory,
        sms=model.sms or None,
        serial=f"16{index:011d}",
        minor=index,
        pcie_generation=board.pcie_generation,
        pcie_width=16,
        max_sm_clock_mhz=board.max_sm_clock_mhz,
        max_memory_clock_mhz=board.max_memory_clock_mhz,
        power_limit_watts=board.power_limit_watts,
        geometry=geometry_named(model.mig),
    )


def _derive_pci(index: int) -> str:
    return f"0000:{_FIRST_BUS + _BUS_STEP * index:02x}:00.0"


def _switch_ports(version: int, bandwidth: int) -> tuple[NvLinkPort, ...]:
    """Links of a version to an NVSwitch that have some bandwidth together."""
    count = bandwidth // LINK_BANDWIDTH[version] if bandwidth else 0
    return tuple(NvLinkPort(link, True, version, is_switch=True) for link in range(count))


def _add_direct_links(
    devices: Sequence[Device], links: Sequence[tuple[int, int, int]]
) -> list[Device]:
    """With NVLinks between pairs of devices, from the bandwidth between them."""
    by_index = {device.index: device for device in devices}
    ports = {device.index: list(device.nvlinks) for device in devices}
    for first, second, speed in links:
        for one, other in ((first, second), (second, first)):
            version = _nvlink_version(by_index[one])
            for _ in range(max(1, speed // LINK_BANDWIDTH[version])):
                link = len(ports[one])
                ports[one].append(NvLinkPort(link, True, version, by_index[other].pci))
    return [replace(device, nvlinks=tuple(ports[device.index])) for device in devices]


def _nvlink_version(device: Device, model: GpuModel | None = None) -> int:
    """By the model, or by what its architecture had."""
    if model is not None and model.nvlink is not None:
        return model.nvlink.generation
    return _NVLINK_VERSIONS.get(device.architecture, _NVLINK_VERSIONS["Hopper"])


_NVLINK_VERSIONS = {"Pascal": 1, "Volta": 2, "Turing": 2, "Ampere": 3, "Hopper": 4, "Blackwell": 5}


def _find_geometry(topology: Topology, gpu: gpu_annotations.Gpu) -> MigGeometry | None:
    name = topology.mig if gpu.mig is None else gpu.mig
    listed = topology.geometries.get(name)
    if listed is None:
        return geometry_named(name)
    profiles = (
        MigProfile(each.name, each.compute, each.slices, each.starts, each.limit, each.extended)
        for each in listed
    )
    return MigGeometry(name, tuple(profiles))


def _convert_instances(
    device: Device, instances: Sequence[gpu_annotations.MigInstance]
) -> tuple[MigInstance, ...]:
    geometry = device.geometry
    found = ((each, geometry.profile(each.profile) if geometry else None) for each in instances)
    return tuple(
        replace(build_instance(device, profile, each.start), uuid=each.uuid)
        for each, profile in found
        if profile is not None
    )


def _list_resources(device: Device) -> tuple[MigResources, ...]:
    """Memory and engines of the profiles: in proportion, as on an H200."""
    if device.geometry is None:
        return ()
    total = max(profile.slices for profile in device.geometry.profiles)
    return tuple(
        MigResources(
            profile.name,
            memory_mib=device.memory_mib * profile.slices // total,
            sms=profile.sms,
            copy_engines=profile.slices if profile.slices == total else profile.compute,
            decoders=profile.compute,
            jpeg_engines=profile.compute,
            ofa_engines=1 if profile.extended or profile.slices == total else 0,
        )
        for profile in device.geometry.profiles
    )
