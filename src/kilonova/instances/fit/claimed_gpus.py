"""GPUs that device claims occupy, of drivers that publish the GPUs of nodes. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kilonova.instances.fit.holders import Holder, find_holder
from kilonova.scheduler.core.dra.claim_ledger import PublishedAllocation
from kilonova.scheduler.core.dra.claims import Device, DeviceId
from kilonova.scheduler.core.gpu.identity import WHOLE_GPU
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class ClaimedGpu:
    """What a claim has of a GPU, and whose claim it is."""

    share: GpuShare
    holder: Holder


def find_claimed_gpus(cluster_snapshot: ClusterSnapshot) -> Mapping[str, list[ClaimedGpu]]:
    """By node."""
    if not cluster_snapshot.claims:
        return {}
    devices = {device.id: device for pool in cluster_snapshot.pools for device in pool.devices}
    nodes = {node.name: node for node in cluster_snapshot.nodes}
    placements = {each.pod: each for each in cluster_snapshot.placements}
    found: dict[str, list[ClaimedGpu]] = defaultdict(list)
    for claim, published in cluster_snapshot.claims.items():
        holder = _find_claim_holder(claim, published, placements)
        for node, share in _find_shares(published, devices, nodes):
            found[node].append(ClaimedGpu(share, holder))
    return found


def _find_claim_holder(
    claim: str, published: PublishedAllocation, placements: Mapping[str, PodPlacement]
) -> Holder:
    """That of the first pod that uses it; the claim itself while none does."""
    pods = (placements[pod] for pod in sorted(published.consumers) if pod in placements)
    first = next(pods, None)
    return Holder("ResourceClaim", claim) if first is None else find_holder(first)


def _find_shares(
    published: PublishedAllocation, devices: Mapping[DeviceId, Device], nodes: Mapping[str, Node]
) -> Iterator[tuple[str, GpuShare]]:
    for each in published.allocation.devices:
        device = devices.get(each.device)
        if each.admin or device is None or device.gpu is None:
            continue
        node = nodes.get(device.node or published.allocation.node)
        if node is None:
            continue
        index = device.gpu.find_index(node.gpu_ids, is_local=device.node == node.name)
        if index is not None:
            mask = device.gpu.mask
            is_whole = mask == WHOLE_GPU
            yield node.name, GpuShare(index) if is_whole else GpuShare(index, 0, mask=mask)
