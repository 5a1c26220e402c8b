"""What a simulated node tells of its GPUs, as a node agent does on a real one. Pure.

Nodes of one kind tell the same, letter by letter, and share the text: schedulers work out once
what follows from it, and ten thousand nodes hold it once. So devices have no uuid.
"""

from collections.abc import Mapping
from functools import lru_cache

from msgspec.structs import replace

from kilonova.api import gpus
from kilonova.api.gpus import Topology, Unreadable, print_topology, read_topology
from kilonova.api.quantity import parse
from kilonova.local.nodes.fleet import Gpu
from kilonova.local.nodes.parts import Part, part_of

_MOST = 64
"""More than so many devices are not described in an annotation."""
_FAMILIES = {"Ada": "ada-lovelace"}
"""Where feature discovery has another word."""


def topology_annotation(gpu: Gpu | None, lost: frozenset[int]) -> str | None:
    """The annotation of a node with such GPUs, of which some are lost; None if it has none."""
    if gpu is None or gpu.topology == "none" or gpu.count > _MOST:
        return None
    return _text(gpu, lost & frozenset(range(gpu.count)))


def unhealthy_gpus(annotations: Mapping[str, str]) -> frozenset[int]:
    """The devices that a node tells are not well. What cannot be read tells of none."""
    return _unhealthy(annotations.get(gpus.TOPOLOGY, ""))


@lru_cache(maxsize=256)
def feature_labels(gpu: Gpu) -> Mapping[str, str]:
    """The labels of NVIDIA's feature discovery that tell one kind of node from another."""
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": gpu.model,
        "nvidia.com/gpu.count": str(gpu.count),
        "nvidia.com/gpu.memory": str(_mebibytes(gpu)),
    }
    part = part_of(gpu.model)
    if part is not None:
        major, minor = part.capability
        family = _FAMILIES.get(part.architecture, part.architecture.lower())
        labels |= {
            "nvidia.com/gpu.family": family,
            "nvidia.com/gpu.compute.major": str(major),
            "nvidia.com/gpu.compute.minor": str(minor),
            "nvidia.com/mig.capable": "true" if part.splits else "false",
        }
    return labels


@lru_cache(maxsize=4096)
def _text(gpu: Gpu, lost: frozenset[int]) -> str:
    topology = _topology(gpu)
    devices = tuple(
        replace(device, healthy=index not in lost) for index, device in enumerate(topology.gpus)
    )
    return print_topology(replace(topology, gpus=devices))


@lru_cache(maxsize=4096)
def _unhealthy(text: str) -> frozenset[int]:
    topology = read_topology(text) if text else Topology(())
    if isinstance(topology, Unreadable):
        return frozenset()
    return frozenset(index for index, gpu in enumerate(topology.gpus) if not gpu.healthy)


def _topology(gpu: Gpu) -> Topology:
    part, memory = part_of(gpu.model), _mebibytes(gpu)
    if part is None:
        return Topology((gpus.Gpu(),) * gpu.count, product=gpu.model, memory=memory)
    return Topology(
        tuple(_device(part, index, gpu.count) for index in range(gpu.count)),
        part.links(gpu.count),
        gpu.model,
        memory,
        part.architecture,
        part.port_of(gpu.count),
        part.geometry(memory),
    )


def _device(part: Part, index: int, count: int) -> gpus.Gpu:
    """Two sockets, and as many neighbours at the one as at the other."""
    pair, pairs = index // 2, (count + 1) // 2
    return gpus.Gpu(numa=pair * 2 // pairs, pcie=str(pair if part.in_pairs else index))


def _mebibytes(gpu: Gpu) -> int:
    return parse(str(gpu.memory)).value >> 20
