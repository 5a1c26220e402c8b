"""ResourceClaims, as far as they concern simulated nodes."""

from collections.abc import Sequence

import msgspec

from kilonova.kube import Key, Resource


class _Result(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pool: str
    device: str
    request: str = ""
    admin_access: bool | None = None


class _Devices(msgspec.Struct, frozen=True, gc=False):
    results: tuple[_Result, ...] = ()


class _Allocation(msgspec.Struct, frozen=True, gc=False):
    devices: _Devices = _Devices()


class _Status(msgspec.Struct, frozen=True, gc=False):
    allocation: _Allocation | None = None


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A ResourceClaim, and what it was allocated."""

    metadata: _Metadata
    status: _Status = _Status()

    @property
    def results(self) -> Sequence[_Result]:
        """The devices that it has for itself."""
        allocation = self.status.allocation
        found = () if allocation is None else allocation.devices.results
        return [each for each in found if not each.admin_access]


CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, Claim)


def index_by_pool(claim: Claim) -> list[str]:
    """The pools of its devices; those of nodes have their names."""
    return list(dict.fromkeys(each.pool for each in claim.results))


def list_node_keys(claim: Claim) -> list[Key]:
    """The nodes that a claim concerns."""
    return [("", each) for each in index_by_pool(claim)]
