"""The GPU topology that a simulated node publishes, as a node agent does on a real one. Pure.

Equal nodes publish the same, except for what identifies their devices.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec.structs import replace

from kilonova.api.gpu import annotations as gpu_annotations
from kilonova.api.gpu.annotations import (
    DeviceAssignment,
    InvalidAnnotation,
    MigInstance,
    Topology,
    format_topology,
    parse_topology,
)
from kilonova.api.quantity import parse_quantity
from kilonova.catalog import GpuModel, load_catalog
from kilonova.catalog.gpu_features import build_gpu_labels
from kilonova.catalog.wiring import link_gpus, nvswitch_bandwidth
from kilonova.catalog.xids import FALLEN_OFF_BUS, find_xid
from kilonova.local.simnodes.fleet.model import GpuSpec
from kilonova.local.simnodes.gpus.identity import (
    derive_gpu_uuid,
    derive_mig_uuid,
    derive_pci_address,
)

_MAX_DESCRIBED_GPUS = 64
"""The maximum number of devices that an annotation describes."""


def build_topology_annotation(
    node: str,
    gpu: GpuSpec | None,
    lost: frozenset[int],
    instances: Iterable[DeviceAssignment] = (),
) -> str | None:
    """The annotation of a node with such GPUs, some of them lost, and with MIG instances; None if
    it has no GPUs."""
    if gpu is None or gpu.topology == "none" or gpu.count > _MAX_DESCRIBED_GPUS:
        return None
    by_gpu: dict[int, list[MigInstance]] = {}
    for each in sorted(instances, key=lambda each: (each.index, each.start)):
        uuid = derive_mig_uuid(node, each.index, each.profile, each.start)
        by_gpu.setdefault(each.index, []).append(MigInstance(uuid, each.profile, each.start))
    topology = _build_topology(gpu)
    devices = tuple(
        replace(
            device,
            uuid=derive_gpu_uuid(node, index),
            pci=derive_pci_address(index),
            healthy=index not in lost,
            reason=str(find_xid(FALLEN_OFF_BUS)) if index in lost else "",
            mig_enabled=index in by_gpu,
            instances=tuple(by_gpu.get(index, ())),
        )
        for index, device in enumerate(topology.gpus)
    )
    return format_topology(replace(topology, gpus=devices))


def read_unhealthy_gpus(annotations: Mapping[str, str]) -> frozenset[int]:
    """The devices that a node reports as unhealthy; none if the annotation is invalid."""
    return _parse_unhealthy(annotations.get(gpu_annotations.TOPOLOGY, ""))


@lru_cache(maxsize=256)
def build_feature_labels(gpu: GpuSpec) -> Mapping[str, str]:
    """The labels of NVIDIA GPU feature discovery for this kind of node."""
    return build_gpu_labels(gpu.model, gpu.count, memory_mebibytes(gpu), _find_model(gpu))


@lru_cache(maxsize=4096)
def _parse_unhealthy(text: str) -> frozenset[int]:
    topology = parse_topology(text) if text else Topology(())
    if isinstance(topology, InvalidAnnotation):
        return frozenset()
    return frozenset(index for index, gpu in enumerate(topology.gpus) if not gpu.healthy)


@lru_cache(maxsize=256)
def _build_topology(gpu: GpuSpec) -> Topology:
    model, memory = _find_model(gpu), memory_mebibytes(gpu)
    if model is None:
        return Topology((gpu_annotations.Gpu(),) * gpu.count, product=gpu.model, memory=memory)
    return Topology(
        tuple(_build_device(model, index, gpu.count) for index in range(gpu.count)),
        link_gpus(model, gpu.count),
        gpu.model,
        memory,
        model.architecture,
        nvswitch_bandwidth(model, gpu.count),
        model.mig,
        sms=model.sms,
    )


def _build_device(model: GpuModel, index: int, count: int) -> gpu_annotations.Gpu:
    """Two sockets with the same number of GPUs each."""
    pair, pairs = index // 2, (count + 1) // 2
    return gpu_annotations.Gpu(
        numa=pair * 2 // pairs, pcie=str(pair if model.shares_pcie_switch else index)
    )


def _find_model(gpu: GpuSpec) -> GpuModel | None:
    return load_catalog().find_gpu(gpu.model, memory_mebibytes(gpu))


def memory_mebibytes(gpu: GpuSpec) -> int:
    """The memory of each GPU."""
    return parse_quantity(str(gpu.memory)).value >> 20
