"""The ResourceSlices and DeviceClasses of a simulated node, as NVIDIA's DRA driver has them. Pure.

Each GPU is a device `gpu-INDEX`. With partitions, every MIG instance that a GPU could have is a
device, too; it consumes the memory slices that it would occupy, and the whole GPU consumes all.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from kilonova.api.gpu_annotations import DeviceAssignment
from kilonova.api.json import JsonObject
from kilonova.catalog import GpuModel, load_catalog
from kilonova.catalog.mig import MEMORY_SLICES, MigGeometry, MigProfile, geometry_named
from kilonova.local.simnodes.fleet.model import GpuSpec
from kilonova.local.simnodes.gpus.identity import derive_gpu_uuid, derive_pci_address
from kilonova.local.simnodes.gpus.topology import memory_mebibytes

DRIVER = "gpu.nvidia.com"
_MAX_DEVICES_WITH_COUNTERS = 64
_MAX_DEVICES = 128
_PROFILE_IDS = {1: 19, 2: 14, 3: 9, 4: 5, 7: 0}
"""GPU instance profile ids by compute slices."""


def build_device_classes() -> list[JsonObject]:
    """The classes of whole GPUs and of MIG instances."""
    return [
        _build_class("gpu.nvidia.com", "gpu", {"extendedResourceName": "nvidia.com/gpu"}),
        _build_class("mig.nvidia.com", "mig", {}),
    ]


def build_resource_slices(node: str, node_uid: str, gpu: GpuSpec) -> list[JsonObject]:
    """The slices of a node's pool: the devices, and before them the counters that they consume."""
    devices = list(_build_devices(node, gpu))
    counters = _build_counter_sets(gpu)
    size = _MAX_DEVICES_WITH_COUNTERS if counters else _MAX_DEVICES
    parts: list[JsonObject] = [{"sharedCounters": counters}] if counters else []
    parts += [{"devices": devices[at : at + size]} for at in range(0, len(devices), size)]
    pool: JsonObject = {"name": node, "generation": 1, "resourceSliceCount": len(parts)}
    owner: JsonObject = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    return [
        {
            "metadata": {"name": f"{node}-{DRIVER}-{number}", "ownerReferences": [owner]},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **part},
        }
        for number, part in enumerate(parts)
    ]


def find_assignment(gpu: GpuSpec, device: str) -> DeviceAssignment | None:
    """What a device of the pool is of the node's GPUs."""
    return _list_assignments(gpu).get(device)


@lru_cache(maxsize=256)
def _list_assignments(gpu: GpuSpec) -> Mapping[str, DeviceAssignment]:
    whole = {_gpu_name(index): DeviceAssignment(index) for index in range(gpu.count)}
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
            **_string("productName", gpu.model),
            **(_string("architecture", model.architecture) if model is not None else {}),
            **_string("resource.kubernetes.io/pciBusID", derive_pci_address(index)),
        }
        capacity = {"memory": {"value": f"{memory}Mi"}}
        if sms:
            capacity["multiprocessors"] = {"value": str(sms)}
        own = {**_string("type", "gpu"), **_string("uuid", uuid), **common}
        yield _build_device(_gpu_name(index), own, capacity, index, _all_slices(gpu))
        for profile, start in _iter_partitions(gpu):
            own = {
                **_string("type", "mig"),
                **_string("parentUUID", uuid),
                **_string("profile", profile.name),
                **common,
            }
            part = {"memory": {"value": f"{memory * profile.slices // MEMORY_SLICES}Mi"}}
            if profile.sms:
                part["multiprocessors"] = {"value": str(profile.sms)}
            taken = range(start, start + profile.slices)
            yield _build_device(_instance_name(index, profile, start), own, part, index, taken)


def _build_device(
    name: str, attributes: JsonObject, capacity: JsonObject, index: int, slices: range
) -> JsonObject:
    device: JsonObject = {"name": name, "attributes": attributes, "capacity": capacity}
    if slices:
        counters = {f"memory-slice-{number}": {"value": "1"} for number in slices}
        device["consumesCounters"] = [
            {"counterSet": _counter_set_name(index), "counters": counters}
        ]
    return device


def _build_counter_sets(gpu: GpuSpec) -> list[JsonObject]:
    counters = {f"memory-slice-{number}": {"value": "1"} for number in _all_slices(gpu)}
    if not counters:
        return []
    return [{"name": _counter_set_name(index), "counters": counters} for index in range(gpu.count)]


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


def _gpu_name(index: int) -> str:
    return f"gpu-{index}"


def _instance_name(index: int, profile: MigProfile, start: int) -> str:
    short, number = profile.name.replace(".", ""), _PROFILE_IDS.get(profile.compute, 15)
    return f"gpu-{index}-mig-{short}-{number}-{start}"


def _counter_set_name(index: int) -> str:
    return f"gpu-{index}-counter-set"


def _string(name: str, value: str) -> JsonObject:
    return {name: {"string": value}}


def _build_class(name: str, kind: str, more: JsonObject) -> JsonObject:
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **more},
    }
