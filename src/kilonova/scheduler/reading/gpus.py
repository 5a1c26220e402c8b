"""GPUs of nodes and pods, from what the API server holds of them to values that `core` decides on.

A node without a topology annotation may still carry the labels of NVIDIA's feature discovery; then
at least model, memory and architecture of its devices are known.
"""

import re
from collections.abc import Mapping

from kilonova.api.gpus import (
    DEVICES,
    TOPOLOGY,
    Assignment,
    Topology,
    Unreadable,
    print_devices,
    read_devices,
    read_topology,
)
from kilonova.scheduler.core.devices import Gpu, Layout, Share
from kilonova.scheduler.core.mig import Geometry, Profile
from kilonova.scheduler.core.mig_parts import known_geometry

_PRODUCT = "nvidia.com/gpu.product"
_MEMORY = "nvidia.com/gpu.memory"
_FAMILY = "nvidia.com/gpu.family"
_MEBIBYTES = re.compile(r"[0-9]{1,9}", re.ASCII)


def layout_of(
    annotations: Mapping[str, str], labels: Mapping[str, str], count: int
) -> Layout | Unreadable:
    """The devices of a node that offers so many, by its annotation, else by its labels."""
    text = annotations.get(TOPOLOGY)
    if text is None:
        return _layout_by_labels(labels, count)
    topology = read_topology(text)
    if isinstance(topology, Unreadable):
        return topology
    try:
        return _layout(topology)
    except ValueError as error:
        return Unreadable(TOPOLOGY, str(error))


def shares_of(text: str, layout: Layout) -> tuple[Share, ...] | Unreadable:
    """What a pod's annotation gives it of a node's devices."""
    assignments = read_devices(text)
    if isinstance(assignments, Unreadable):
        return assignments
    shares: list[Share] = []
    for assignment in assignments:
        if assignment.index >= len(layout.gpus):
            return Unreadable(
                DEVICES, f"{assignment}: the node has {len(layout.gpus)} devices, from 0 on"
            )
        share = _share(assignment, layout.gpus[assignment.index].mig)
        if isinstance(share, Unreadable):
            return share
        beside = [other for other in shares if other.index == share.index]
        if any(not (other.mask and share.mask) or other.mask & share.mask for other in beside):
            return Unreadable(DEVICES, f"{assignment}: the pod has that of the device already")
        shares.append(share)
    return tuple(shares)


def devices_text(shares: tuple[Share, ...]) -> str:
    """What is written on a pod about the devices that it is given."""
    return print_devices(
        tuple(Assignment(share.index, share.milli, share.profile, share.start) for share in shares)
    )


def _layout_by_labels(labels: Mapping[str, str], count: int) -> Layout:
    model, architecture = labels.get(_PRODUCT, ""), labels.get(_FAMILY, "")
    text = labels.get(_MEMORY, "")
    # A longer number is no memory of a device, and more than can be counted with.
    memory = int(text) if _MEBIBYTES.fullmatch(text) else 0
    if not model and not memory and not architecture:
        return Layout.of_unknown(count)
    return Layout(tuple(Gpu(index, memory, model, architecture) for index in range(count)))


def _layout(topology: Topology) -> Layout:
    geometries = {
        name: Geometry(
            name,
            tuple(
                Profile(p.name, p.compute, p.slices, p.starts, p.limit, p.extended)
                for p in profiles
            ),
        )
        for name, profiles in topology.geometries.items()
    }
    gpus: list[Gpu] = []
    for index, gpu in enumerate(topology.gpus):
        name = topology.mig if gpu.mig is None else gpu.mig
        mig = geometries.get(name) or known_geometry(name)
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
                uuid=gpu.uuid,
            )
        )
    links = {(min(a, b), max(a, b)): speed for a, b, speed in topology.links}
    return Layout(tuple(gpus), tuple((a, b, speed) for (a, b), speed in sorted(links.items())))


def _share(assignment: Assignment, mig: Geometry | None) -> Share | Unreadable:
    if not assignment.profile:
        return Share(assignment.index, assignment.milli)
    profile = None if mig is None else mig.profile(assignment.profile)
    if profile is None:
        return Unreadable(DEVICES, f"{assignment}: the device has no such MIG profile")
    if assignment.start not in profile.starts:
        starts = ", ".join(map(str, profile.starts))
        return Unreadable(DEVICES, f"{assignment}: {profile.name} starts at {starts}")
    mask = profile.mask(assignment.start)
    return Share(assignment.index, 0, profile.name, assignment.start, mask)
