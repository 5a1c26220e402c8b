"""The devices of a pod's ResourceClaims on a simulated node, as a kubelet prepares them."""

from collections.abc import Iterator, Mapping

import msgspec

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.api.meta import Metadata
from kilonova.kube import Client, NotFound, Resource
from kilonova.local.objects.core import Pod
from kilonova.local.simnodes.fleet.model import FleetNode
from kilonova.local.simnodes.gpus.resource_slices import DRIVER, find_assignment

ClaimedDevices = Mapping[str, tuple[DeviceAssignment, ...]]
"""The GPUs of each claim, by the claim's uid."""


class _DeviceResult(msgspec.Struct, frozen=True, rename="camel"):
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None


class _Devices(msgspec.Struct, frozen=True):
    results: tuple[_DeviceResult, ...] = ()


class _Allocation(msgspec.Struct, frozen=True):
    devices: _Devices = _Devices()


class _Consumer(msgspec.Struct, frozen=True):
    uid: str


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    allocation: _Allocation | None = None
    reserved_for: tuple[_Consumer, ...] = ()


class _Claim(msgspec.Struct):
    metadata: Metadata
    status: _Status = _Status()


_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, _Claim)


async def read_claimed_devices(client: Client, node: FleetNode, pod: Pod) -> ClaimedDevices | None:
    """The GPUs of a pod's claims; None while a claim is not allocated, or not reserved for the
    pod."""
    found: dict[str, tuple[DeviceAssignment, ...]] = {}
    for name in _iter_claim_names(pod):
        try:
            if name is None:
                return None
            claim = await client.get(_CLAIMS, name, pod.metadata.namespace)
        except NotFound:
            return None
        allocation = claim.status.allocation
        reserved = any(each.uid == pod.metadata.uid for each in claim.status.reserved_for)
        if allocation is None or not reserved:
            return None
        found[claim.metadata.uid] = tuple(_iter_assignments(node, allocation))
    return {claim: devices for claim, devices in found.items() if devices}


def uses_claims(pod: Pod) -> bool:
    """Whether a pod has claims."""
    return next(_iter_claim_names(pod), "") != ""


def _iter_claim_names(pod: Pod) -> Iterator[str | None]:
    """The names of a pod's claims; None for one that is not generated yet."""
    generated = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for pod_claim in pod.spec.resource_claims:
        if pod_claim.resource_claim_name is not None:
            yield pod_claim.resource_claim_name
        elif pod_claim.name not in generated:
            yield None
        elif generated[pod_claim.name]:
            yield generated[pod_claim.name]
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield extended.resource_claim_name


def _iter_assignments(node: FleetNode, allocation: _Allocation) -> Iterator[DeviceAssignment]:
    gpu = node.group.gpu
    for result in allocation.devices.results:
        if gpu is not None and not result.admin_access:
            is_own = (result.driver, result.pool) == (DRIVER, node.name)
            assignment = find_assignment(gpu, result.device) if is_own else None
            if assignment is not None:
                yield assignment
