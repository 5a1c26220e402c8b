"""GPUs of nodes and pods: topology, health and device assignments.

For a node without a topology annotation, the labels of NVIDIA's GPU feature discovery give at least
the model, memory and architecture of its devices.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.api.gpu.annotations import (
    DEVICES,
    TOPOLOGY,
    DeviceAssignment,
    InvalidAnnotation,
    Topology,
    format_devices,
    normalize_pci_address,
    parse_devices,
    parse_topology,
)
from kilonova.catalog.gpu_features import FAMILY, MEMORY, PRODUCT
from kilonova.catalog.mig import MigGeometry, MigProfile, geometry_named
from kilonova.scheduler.core.gpu.identity import GpuId
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout, GpuShare

_MEBIBYTES = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The devices of a node, and what identifies each, as far as known."""

    layout: GpuLayout
    ids: tuple[GpuId, ...] = ()


def convert_node_gpus(
    annotations: Mapping[str, str], labels: Mapping[str, str], count: int
) -> NodeGpus | InvalidAnnotation:
    """The devices of a node that advertises `count`, by its annotation, else by its labels."""
    text = annotations.get(TOPOLOGY)
    if text is None:
        return NodeGpus(_layout_from_labels(labels, count))
    topology = parse_topology(text)
    if isinstance(topology, InvalidAnnotation):
        return topology
    try:
        return NodeGpus(_convert_topology(topology), _convert_ids(topology))
    except ValueError as error:
        return InvalidAnnotation(TOPOLOGY, str(error))


def convert_devices(text: str, layout: GpuLayout) -> tuple[GpuShare, ...] | InvalidAnnotation:
    """The devices in a pod's annotation as shares of a node's GPUs."""
    assignments = parse_devices(text)
    if isinstance(assignments, InvalidAnnotation):
        return assignments
    shares: list[GpuShare] = []
    for assignment in assignments:
        if assignment.index >= len(layout.gpus):
            return InvalidAnnotation(
                DEVICES, f"{assignment}: the node has {len(layout.gpus)} devices, numbered from 0"
            )
        share = _convert_assignment(assignment, layout.gpus[assignment.index].mig)
        if isinstance(share, InvalidAnnotation):
            return share
        same_device = [other for other in shares if other.index == share.index]
        if any(not (other.mask and share.mask) or other.mask & share.mask for other in same_device):
            return InvalidAnnotation(DEVICES, f"{assignment}: the device is assigned twice")
        shares.append(share)
    return tuple(shares)


def encode_devices(shares: tuple[GpuShare, ...]) -> str:
    """The annotation value for assigned devices."""
    return format_devices(
        tuple(
            DeviceAssignment(share.index, share.milli, share.profile, share.start, share.memory)
            for share in shares
        )
    )


def _layout_from_labels(labels: Mapping[str, str], count: int) -> GpuLayout:
    model, architecture = labels.get(PRODUCT, ""), labels.get(FAMILY, "")
    text = labels.get(MEMORY, "")
    # A longer number is not a valid memory size and would overflow.
    memory = int(text) if _MEBIBYTES.fullmatch(text) else 0
    if not model and not memory and not architecture:
        return GpuLayout.of_unknown(count)
    return GpuLayout(tuple(Gpu(index, memory, model, architecture) for index in range(count)))


def _convert_ids(topology: Topology) -> tuple[GpuId, ...]:
    if not any(gpu.uuid or gpu.pci for gpu in topology.gpus):
        return ()
    return tuple(GpuId(gpu.uuid, normalize_pci_address(gpu.pci)) for gpu in topology.gpus)


def _convert_topology(topology: Topology) -> GpuLayout:
    geometries = {
        name: MigGeometry(
            name,
            tuple(
                MigProfile(p.name, p.compute, p.slices, p.starts, p.limit, p.extended)
                for p in profiles
            ),
        )
        for name, profiles in topology.geometries.items()
    }
    gpus: list[Gpu] = []
    for index, gpu in enumerate(topology.gpus):
        name = topology.mig if gpu.mig is None else gpu.mig
        mig = geometries.get(name) or geometry_named(name)
        if name and mig is None:
            raise ValueError(f"device {index}: MIG geometry {name!r} is not among `geometries`")
        gpus.append(
            Gpu(
                index,
                memory=topology.memory if gpu.memory is None else gpu.memory,
                model=topology.product if gpu.product is None else gpu.product,
                architecture=(
                    topology.architecture if gpu.architecture is None else gpu.architecture
                ),
                numa=max(gpu.numa, -1),
                pcie=gpu.pcie,
                port=topology.port if gpu.port is None else gpu.port,
                mig=mig,
                healthy=gpu.healthy,
                withheld=bool(gpu.withheld),
            )
        )
    links = {(min(a, b), max(a, b)): speed for a, b, speed in topology.links}
    return GpuLayout(tuple(gpus), tuple((a, b, speed) for (a, b), speed in sorted(links.items())))


def _convert_assignment(
    assignment: DeviceAssignment, mig: MigGeometry | None
) -> GpuShare | InvalidAnnotation:
    if not assignment.profile:
        return GpuShare(assignment.index, assignment.milli, memory=assignment.memory)
    profile = None if mig is None else mig.profile(assignment.profile)
    if profile is None:
        return InvalidAnnotation(DEVICES, f"{assignment}: the device has no such MIG profile")
    if assignment.start not in profile.starts:
        starts = ", ".join(map(str, profile.starts))
        return InvalidAnnotation(DEVICES, f"{assignment}: {profile.name} starts at {starts}")
    mask = profile.mask_at(assignment.start)
    return GpuShare(assignment.index, 0, profile.name, assignment.start, mask)
