"""ResourceClaims as far as a driver on a node needs them."""

from collections.abc import Iterator

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.gpu.dra.configs import OpaqueConfig
from kilonova.kube import Client, NotFound, Resource


class ClaimNotAllocated(Exception):
    """A claim that does not exist as the kubelet knows it, or that nothing is allocated to."""


class AllocatedDevice(msgspec.Struct, frozen=True):
    """A device of this node that a claim is allocated."""

    request: str
    """As in the allocation: with the subrequest, if there is one."""
    name: str
    is_admin: bool = False
    """Access for monitoring, beside others."""

    @property
    def main_request(self) -> str:
        """The request by which containers name it."""
        return self.request.partition("/")[0]


class AllocatedClaim(msgspec.Struct, frozen=True):
    """What a claim is allocated of a driver's devices on a node."""

    uid: str
    namespace: str
    name: str
    devices: tuple[AllocatedDevice, ...]
    configs: tuple[OpaqueConfig, ...] = ()
    """Those of classes first."""


async def read_claim(
    client: Client, driver: str, pool: str, namespace: str, name: str, uid: str
) -> AllocatedClaim:
    """The allocation of a claim, of the driver's devices in the pool. May raise
    `ClaimNotAllocated`."""
    key = f"ResourceClaim {namespace}/{name}"
    try:
        claim = await client.get(CLAIMS, name, namespace)
    except NotFound:
        raise ClaimNotAllocated(f"{key} does not exist") from None
    if claim.metadata.uid != uid:
        raise ClaimNotAllocated(f"{key} was recreated: its uid is {claim.metadata.uid}, not {uid}")
    allocation = claim.status.allocation
    if allocation is None:
        raise ClaimNotAllocated(f"{key} is not allocated")
    return AllocatedClaim(
        uid,
        namespace,
        name,
        tuple(_iter_devices(allocation, driver, pool)),
        tuple(_iter_configs(allocation, driver)),
    )


async def is_allocated(client: Client, namespace: str, name: str, uid: str) -> bool:
    """Whether this very claim still has an allocation."""
    try:
        claim = await client.get(CLAIMS, name, namespace)
    except NotFound:
        return False
    return claim.metadata.uid == uid and claim.status.allocation is not None


class _Result(msgspec.Struct, frozen=True, rename="camel"):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None


class _Opaque(msgspec.Struct, frozen=True):
    driver: str
    parameters: JsonObject


class _Config(msgspec.Struct, frozen=True):
    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: _Opaque | None = None


class _Devices(msgspec.Struct, frozen=True):
    results: tuple[_Result, ...] = ()
    config: tuple[_Config, ...] = ()


class _Allocation(msgspec.Struct, frozen=True):
    devices: _Devices = _Devices()


class _Status(msgspec.Struct, frozen=True):
    allocation: _Allocation | None = None


class _Claim(msgspec.Struct):
    metadata: Metadata
    status: _Status = _Status()


CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, _Claim)


def _iter_devices(allocation: _Allocation, driver: str, pool: str) -> Iterator[AllocatedDevice]:
    for each in allocation.devices.results:
        if (each.driver, each.pool) == (driver, pool):
            yield AllocatedDevice(each.request, each.device, bool(each.admin_access))


def _iter_configs(allocation: _Allocation, driver: str) -> Iterator[OpaqueConfig]:
    for source in ("FromClass", "FromClaim"):
        for each in allocation.devices.config:
            if each.source == source and each.opaque is not None and each.opaque.driver == driver:
                yield OpaqueConfig(each.requests, each.opaque.parameters)
