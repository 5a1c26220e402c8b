"""What the service answers of nodes and their GPUs. Pure."""

from collections.abc import Mapping

import msgspec

from kilonova.api.gpu import annotations as gpu_annotations
from kilonova.api.gpu.annotations import InvalidAnnotation, Topology, parse_topology
from kilonova.api.nodes.topology_labels import TOPOLOGY_LEVELS
from kilonova.catalog.gpu_features import NVLINK_DOMAIN
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, GpuLayout

DOMAIN_LABELS = (*TOPOLOGY_LEVELS, NVLINK_DOMAIN)
"""The labels that specify where a node is, broadest first."""


class InstanceView(msgspec.Struct, frozen=True, gc=False):
    """A MIG instance that exists."""

    uuid: str
    profile: str
    start: int


class GpuView(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A GPU of a node, and how much of it is free."""

    index: int
    healthy: bool
    free_milli: int
    """The free part of its compute capacity, in thousandths; 0 where MIG instances are."""
    uuid: str = ""
    pci: str = ""
    product: str = ""
    memory_mib: int = 0
    architecture: str = ""
    numa: int = -1
    pcie_switch: str = ""
    port_gbps: int = 0
    """GB/s to an NVSwitch, both directions."""
    reason: str = ""
    """Why it is unhealthy."""
    mig_enabled: bool = False
    occupied_slices: tuple[int, ...] = ()
    """Memory slices that are allocated to pods or claims."""
    instances: tuple[InstanceView, ...] = ()


class LinkView(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Direct NVLinks between two GPUs of a node."""

    first: int
    second: int
    gbps: int


class NodeView(msgspec.Struct, frozen=True, rename="camel"):
    """The GPUs of a node. `free_gpus` are healthy and allocated to no pod or claim."""

    node: str
    domains: Mapping[str, str]
    free_gpus: int
    gpus: tuple[GpuView, ...]
    links: tuple[LinkView, ...] = ()


def build_node_view(
    node: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    layout: GpuLayout,
    usage: tuple[list[int], list[int]],
) -> NodeView:
    """The view of a node. `usage` is the free milli and the mask of occupied slices, by device, as
    the scheduler counts them."""
    topology = _read_topology(annotations)
    free, masks = usage
    gpus = tuple(
        _build_gpu_view(layout, topology, index, free[index], masks[index])
        for index in range(len(layout.gpus))
    )
    return NodeView(
        node=node,
        domains={name: labels[name] for name in DOMAIN_LABELS if name in labels},
        free_gpus=sum(
            each.healthy and free[each.index] == MILLI_PER_GPU and not masks[each.index]
            for each in gpus
        ),
        gpus=gpus,
        links=tuple(LinkView(*link) for link in layout.links),
    )


def _read_topology(annotations: Mapping[str, str]) -> Topology:
    text = annotations.get(gpu_annotations.TOPOLOGY, "")
    topology = parse_topology(text) if text else Topology(())
    return Topology(()) if isinstance(topology, InvalidAnnotation) else topology


def _build_gpu_view(
    layout: GpuLayout, topology: Topology, index: int, free: int, mask: int
) -> GpuView:
    gpu = layout.gpus[index]
    published = topology.gpus[index] if index < len(topology.gpus) else gpu_annotations.Gpu()
    return GpuView(
        index=index,
        healthy=gpu.healthy,
        free_milli=0 if mask else max(free, 0),
        uuid=published.uuid,
        pci=published.pci,
        product=gpu.model,
        memory_mib=gpu.memory,
        architecture=gpu.architecture,
        numa=gpu.numa,
        pcie_switch=gpu.pcie,
        port_gbps=gpu.port,
        reason=published.reason,
        mig_enabled=published.mig_enabled,
        occupied_slices=tuple(bit for bit in range(8) if mask >> bit & 1),
        instances=tuple(
            InstanceView(each.uuid, each.profile, each.start) for each in published.instances
        ),
    )
