"""The ResourceSlices and DeviceClasses of a simulated node, as NVIDIA's DRA driver has them. Pure.

Each GPU is a device `gpu-INDEX`. With partitions, every MIG instance that a GPU could have is a
device, too; it consumes the memory slices that it would occupy, and the whole GPU consumes all.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from kilonova.api.gpu import slices as gpu_slices
from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.api.json import JsonObject
from kilonova.catalog import GpuModel, load_catalog
from kilonova.catalog.mig import MEMORY_SLICES, MigGeometry, MigProfile, geometry_named
from kilonova.catalog.resource_names import GPU
from kilonova.local.simnodes.fleet.model import GpuSpec
from kilonova.local.simnodes.gpus.identity import derive_gpu_uuid, derive_pci_address
from kilonova.local.simnodes.gpus.topology import memory_mebibytes

DRIVER = "gpu.nvidia.com"


def build_device_classes() -> list[JsonObject]:
    """The classes of whole GPUs and of MIG instances."""
    return [
        gpu_slices.build_device_class("gpu.nvidia.com", DRIVER, "gpu", extended_resource=GPU),
        gpu_slices.build_device_class("mig.nvidia.com", DRIVER, "mig"),
    ]


def build_resource_slices(node: str, node_uid: str, gpu: GpuSpec) -> list[JsonObject]:
    """The slices of a node's pool: the devices, and before them the counters that they consume."""
    devices = list(_build_devices(node, gpu))
    return gpu_slices.build_pool(DRIVER, node, node_uid, devices, _build_counter_sets(gpu))


def find_assignment(gpu: GpuSpec, device: str) -> DeviceAssignment | None:
    """What a device of the pool is of the node's GPUs."""
    return _list_assignments(gpu).get(device)


@lru_cache(maxsize=256)
def _list_assignments(gpu: GpuSpec) -> Mapping[str, DeviceAssignment]:
    whole = {
        gpu_slices.gpu_device_name(index): DeviceAssignment(index) for index in range(gpu.count)
    }
    parts = {
        _instance_name(index, profile, start): DeviceAssignment(index, 0, profile.name, start)
        for index in range(gpu.count)
        for profile, start in _iter_partitions(gpu)
    }
    return {**whole, **parts}


def _build_devices(node: str, gpu: GpuSpec) -> Iterator[JsonObject]:
    model, memory = _find_model(gpu), memory_mebibytes(gpu)
    sms = model.sms if model is not None else 0
    for index in range(gpu.count):
        uuid = derive_gpu_uuid(node, index)
        common = {
            "productName": gpu.model,
            "architecture": model.architecture if model is not None else "",
            gpu_slices.PCI_ADDRESS: derive_pci_address(index),
        }
        capacity = {"memory": f"{memory}Mi"}
        if sms:
            capacity["multiprocessors"] = str(sms)
        own = gpu_slices.typed_attributes({"type": "gpu", "uuid": uuid, **common})
        counters = gpu_slices.slice_counters(_all_slices(gpu))
        name = gpu_slices.gpu_device_name(index)
        yield gpu_slices.build_device(name, own, capacity, index, counters)
        for profile, start in _iter_partitions(gpu):
            own = gpu_slices.typed_attributes(
                {"type": "mig", "parentUUID": uuid, "profile": profile.name, **common}
            )
            part = {"memory": f"{memory * profile.slices // MEMORY_SLICES}Mi"}
            if profile.sms:
                part["multiprocessors"] = str(profile.sms)
            counters = gpu_slices.slice_counters(range(start, start + profile.slices))
            name = _instance_name(index, profile, start)
            yield gpu_slices.build_device(name, own, part, index, counters)


def _build_counter_sets(gpu: GpuSpec) -> list[JsonObject]:
    counters = gpu_slices.slice_counters(_all_slices(gpu))
    if not counters:
        return []
    return [
        {"name": gpu_slices.counter_set_name(index), "counters": counters}
        for index in range(gpu.count)
    ]


def _all_slices(gpu: GpuSpec) -> range:
    """The memory slices of a GPU; none without partitions."""
    return range(MEMORY_SLICES) if next(_iter_partitions(gpu), None) is not None else range(0)


def _iter_partitions(gpu: GpuSpec) -> Iterator[tuple[MigProfile, int]]:
    """The MIG instances that a GPU could have and that are published."""
    geometry = find_geometry(gpu) if gpu.dra == "mig" else None
    for profile in geometry.profiles if geometry is not None else ():
        if not profile.extended:
            yield from ((profile, start) for start in profile.starts)


@lru_cache(maxsize=256)
def find_geometry(gpu: GpuSpec) -> MigGeometry | None:
    """The MIG geometry of the GPUs of a node; None if they do not support MIG."""
    model = _find_model(gpu)
    return geometry_named(model.mig) if model is not None else None


def _find_model(gpu: GpuSpec) -> GpuModel | None:
    return load_catalog().find_gpu(gpu.model, memory_mebibytes(gpu))


def _instance_name(index: int, profile: MigProfile, start: int) -> str:
    return gpu_slices.mig_device_name(
        index, profile.name, start, compute=profile.compute, slices=profile.slices
    )
