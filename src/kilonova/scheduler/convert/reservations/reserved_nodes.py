"""Reserved nodes: as written to the status of a reservation, and as placements.

A reserved node is a number of equal pods on a node, with all GPUs reserved for them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kilonova.api.gpu.annotations import InvalidAnnotation
from kilonova.api.scheduling import ReservedNode
from kilonova.catalog.resource_names import GPU, mig_resource, profile_of_resource
from kilonova.scheduler.convert.gpus import convert_devices, encode_devices
from kilonova.scheduler.convert.quantities import convert_quantities, encode_quantity
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, GpuShare, build_share
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.node_table import PODS
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape, is_queue_resource
from kilonova.scheduler.core.model.snapshot import Snapshot

ReservedNodes = tuple[ReservedNode, ...]
_RequestKey = tuple[tuple[str, int], ...]


def without_reserved_members(gang: Gang, reserved: ReservedNodes) -> Gang:
    """The members of a gang that are not reserved yet, to be placed next to the others."""
    nodes_by_request = {
        each: _reserved_node_names(reserved, each) for each in map(_reserved_request_key, reserved)
    }
    groups: list[Group] = []
    for group in gang.groups:
        placed: list[str] = []
        members: list[Member] = []
        for member in group.members:
            nodes = nodes_by_request.get(_request_key(member.shape))
            if nodes:
                placed.append(nodes.pop(0))
            else:
                members.append(member)
        groups.append(replace(group, members=tuple(members), placed_nodes=tuple(placed)))
    return replace(gang, groups=tuple(groups))


def matches_reserved_nodes(gang: Gang, reserved: ReservedNodes, snapshot: Snapshot) -> bool:
    """Whether reserved nodes match the requests of a gang, if perhaps not all of them."""
    if not reserved:
        return True
    requested = Counter(_request_key(each.shape) for group in gang.groups for each in group.members)
    selectors: dict[_RequestKey, list[dict[str, str]]] = {}
    for group in gang.groups:
        for each in group.members[:1]:
            selectors.setdefault(_request_key(each.shape), []).append(
                dict(each.shape.node_selector)
            )
    domains: set[str | None] = set()
    for place in reserved:
        request = _reserved_request_key(place)
        requested[request] -= place.pods
        labels: Mapping[str, str] = {}
        if place.name in snapshot:
            labels = snapshot.node(snapshot.row(place.name)).labels
        domains.add(labels.get(gang.pack.required))
        if not any(each.items() <= dict(labels).items() for each in selectors.get(request, ())):
            return False
    return min(requested.values()) >= 0 and (not gang.pack.required or len(domains) == 1)


def adopt_running_pods(
    gang: Gang, placements: Iterable[PodPlacement], node_names: Sequence[str]
) -> ReservedNodes:
    """The nodes of running pods that match the requests of a gang."""
    unmatched = [member for group in gang.groups for member in group.members]
    found: list[PodPlacement] = []
    for pod_placement in sorted(placements, key=lambda each: each.pod):
        available = dict(_request_key(pod_placement.shape))
        for member in unmatched:
            request = _request_key(member.shape)
            if all(available.get(name, 0) >= amount for name, amount in request):
                devices = pod_placement.devices[: dict(request).get(GPU)]
                found.append(replace(pod_placement, member=member, devices=devices))
                unmatched.remove(member)
                break
    return encode_reserved_nodes(found, node_names)


def encode_reserved_nodes(
    placements: Iterable[PodPlacement], node_names: Sequence[str]
) -> ReservedNodes:
    """Placements as reserved nodes: equal pods on a node are merged."""
    pods_by_node: dict[tuple[str, _RequestKey], list[PodPlacement]] = {}
    for pod_placement in placements:
        pods_by_node.setdefault(
            (node_names[pod_placement.row], _request_key(pod_placement.shape)), []
        ).append(pod_placement)
    return tuple(
        ReservedNode(
            node,
            len(pod_placements),
            {name: _encode_amount(name, amount) for name, amount in request},
            encode_devices(
                _merge_shares(share for each in pod_placements for share in each.devices)
            ),
        )
        for (node, request), pod_placements in sorted(pods_by_node.items())
    )


def convert_reserved_node(
    snapshot: Snapshot, gang: str, number: int, reserved: ReservedNode
) -> PodPlacement | None:
    """A reserved node as a placement; None if its node or devices do not exist."""
    if reserved.name not in snapshot:
        return None
    row = snapshot.row(reserved.name)
    devices: tuple[GpuShare, ...] = ()
    if reserved.devices:
        shares = convert_devices(reserved.devices, snapshot.layout(row))
        if isinstance(shares, InvalidAnnotation):
            return None
        devices = shares
    amounts = {name: amount * reserved.pods for name, amount in _reserved_request_key(reserved)}
    gpu_request: GpuRequest | None = None
    for name in list(amounts):
        if (profile := profile_of_resource(name)) is not None:
            gpu_request = GpuRequest(amounts.pop(name), profile=profile)
    if GPU in amounts:
        gpu_request = GpuRequest(amounts[GPU])
    elif gpu_request is None and devices:
        gpu_request = GpuRequest(1, sum(share.milli for share in devices))
    amounts[PODS] = reserved.pods
    member = Member(
        f"{gang}/{reserved.name}/{number}", Shape(tuple(sorted(amounts.items())), gpu_request)
    )
    return PodPlacement(member, row, devices, gang)


def _request_key(shape: Shape) -> _RequestKey:
    """The reservable requests, by which pods are equal."""
    amounts = {
        name: amount
        for name, amount in shape.requests
        if amount and name != PODS and is_queue_resource(name)
    }
    if shape.gpu is not None and shape.gpu.profile:
        amounts[mig_resource(shape.gpu.profile)] = shape.gpu.count
    return tuple(sorted(amounts.items()))


def _reserved_request_key(reserved: ReservedNode) -> _RequestKey:
    return tuple(sorted(convert_quantities(reserved.requests).items()))


def _reserved_node_names(reserved: ReservedNodes, request: _RequestKey) -> list[str]:
    return [
        place.name
        for place in reserved
        if _reserved_request_key(place) == request
        for _ in range(place.pods)
    ]


def _encode_amount(name: str, amount: int) -> str:
    return encode_quantity(name, amount * MILLI_PER_GPU if name == GPU else amount)


def _merge_shares(shares: Iterable[GpuShare]) -> tuple[GpuShare, ...]:
    """Merge the shares of each device."""
    milli: dict[int, int] = {}
    memory: dict[int, int] = {}
    found: list[GpuShare] = []
    for share in shares:
        if share.mask:
            found.append(share)
        else:
            milli[share.index] = milli.get(share.index, 0) + share.milli
            memory[share.index] = memory.get(share.index, 0) + share.memory_milli
    found += [build_share(index, amount, memory[index]) for index, amount in milli.items()]
    return tuple(sorted(found, key=lambda share: (share.index, share.start)))
