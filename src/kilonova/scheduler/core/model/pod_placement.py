"""A pod counted against a node."""

from dataclasses import dataclass

from kilonova.scheduler.core.dra.claim_ledger import ClaimAllocations
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.requests import Shape


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """A pod counted against a node. `devices` are its GPUs, as far as they are known; `claims` the
    allocation of each of its claims."""

    member: Member
    row: int
    devices: tuple[GpuShare, ...] = ()
    gang: str = ""
    claims: ClaimAllocations = ()

    @property
    def pod(self) -> str:
        return self.member.pod

    @property
    def shape(self) -> Shape:
        return self.member.shape
