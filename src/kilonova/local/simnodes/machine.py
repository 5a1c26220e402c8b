"""The state of a simulated machine that is not in the API."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.api.nodes.simulated_faults import NO_FAULTS, NodeFaults
from kilonova.local.simnodes.fleet.model import DelayRange, FleetNode, parse_delay, parse_seconds
from kilonova.local.simnodes.gpus.allocation import (
    GpuAllocation,
    MachineGpus,
    allocate_any,
    allocate_assigned,
    allocate_instances,
)
from kilonova.local.simnodes.gpus.claims import ClaimedDevices
from kilonova.local.simnodes.gpus.resource_slices import find_geometry
from kilonova.local.simnodes.objects import MAX_PODS, pod_address

NO_CLAIMS: ClaimedDevices = {}
_NO_DELAY = DelayRange(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class MadeDevices:
    """What a node agent has made of a machine's GPUs."""

    instances: frozenset[DeviceAssignment] = frozenset()
    mig_enabled: frozenset[int] = frozenset()
    """The GPUs in MIG mode."""

    def includes(self, assigned: DeviceAssignment) -> bool:
        """Whether a container can use what it was assigned."""
        if assigned.profile:
            return assigned in self.instances
        return assigned.index not in self.mig_enabled


@dataclass(slots=True)
class SimulatedMachine:
    """One node. Lifetimes are mean times in seconds; 0 is unlimited."""

    node: FleetNode
    pull: DelayRange
    start: DelayRange
    stop: DelayRange
    mean_pod_lifetime: float
    mean_node_lifetime: float
    outage_seconds: float
    faults: NodeFaults = NO_FAULTS
    is_removed: bool = False
    """Whether its Node was deleted."""
    _addresses: dict[str, str] = field(default_factory=dict[str, str])
    _allocations: dict[str, GpuAllocation] = field(default_factory=dict[str, GpuAllocation])
    """Allocated GPUs by the uid of the pod, or of the claim."""
    _claim_users: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The uids of the pods that use a claim, by the uid of the claim."""
    instances_changed: Callable[[], None] = lambda: None
    """Is called when a MIG instance is created or destroyed."""
    made: MadeDevices | None = None
    """What the node's agent has made; None without an agent."""
    waiting_pods: dict[str, tuple[DeviceAssignment, ...]] = field(
        default_factory=dict[str, tuple[DeviceAssignment, ...]]
    )
    """The devices that pods wait for, by the uid of the pod."""

    @classmethod
    def from_node(cls, node: FleetNode) -> "SimulatedMachine":
        group, failures = node.group, node.group.failures
        return cls(
            node,
            parse_delay(group.pull) if group.pull else _NO_DELAY,
            parse_delay(group.start),
            parse_delay(group.stop),
            parse_seconds(failures.pod_mtbf) if failures.pod_mtbf else 0.0,
            parse_seconds(failures.node_mtbf) if failures.node_mtbf else 0.0,
            parse_seconds(failures.outage),
        )

    @property
    def is_out(self) -> bool:
        """Whether nothing runs on it."""
        return self.is_removed or self.faults.is_out

    @property
    def gpu_count(self) -> int:
        return self.node.group.gpu.count if self.node.group.gpu is not None else 0

    @property
    def has_dra_driver(self) -> bool:
        """Whether it publishes GPUs for claims; without a driver, it prepares no claims."""
        gpu = self.node.group.gpu
        return gpu is not None and gpu.dra != "none"

    @property
    def healthy_gpu_count(self) -> int:
        """The number of GPUs that are not lost."""
        return len(self._list_healthy_gpus())

    def admit(
        self,
        uid: str,
        count: int,
        assigned: tuple[DeviceAssignment, ...],
        claimed: ClaimedDevices = NO_CLAIMS,
        profiles: Sequence[str] = (),
    ) -> bool:
        """Admit a pod with its GPUs and those of its claims; False if they are lost, too few, or
        allocated otherwise. `profiles` are the MIG instances that it requests."""
        healthy = self._list_healthy_gpus()
        desired = [*assigned, *(each for devices in claimed.values() for each in devices)]
        if uid not in self._allocations and any(each.index not in healthy for each in desired):
            return False
        if self.lost_gpus_of(uid):
            return False
        if profiles and not assigned and uid not in self._allocations:
            gpus = self._gpus(healthy)
            made = None if self.made is None else self.made.instances
            found = allocate_instances(self._allocations, uid, profiles, gpus, made)
            if found is None:
                return False
            self._set_allocations(found)
        return self._allocate_gpus(uid, count, assigned, claimed, healthy)

    def restore_gpus(
        self,
        uid: str,
        count: int,
        assigned: tuple[DeviceAssignment, ...],
        claimed: ClaimedDevices = NO_CLAIMS,
    ) -> None:
        """Restore the GPUs of a pod that another process started: as assigned, or so many. Includes
        lost ones if too few are healthy, for they may have been lost since.
        """
        healthy = self._list_healthy_gpus()
        lost = [gpu for gpu in range(self.gpu_count) if gpu not in healthy]
        self._allocate_gpus(uid, count, assigned, claimed, [*healthy, *lost])

    def _allocate_gpus(
        self,
        uid: str,
        count: int,
        assigned: tuple[DeviceAssignment, ...],
        claimed: ClaimedDevices,
        free: Sequence[int],
    ) -> bool:
        """Allocate the devices of the claims, and the assigned GPUs, or so many; False, and nothing
        is allocated, if they are allocated otherwise."""
        gpus, allocations = self._gpus(free), self._allocations
        for claim, devices in claimed.items():
            if claim not in allocations:
                found = allocate_assigned(allocations, claim, devices, gpus)
                if found is None:
                    return False
                allocations = found
        if uid not in allocations and (count or assigned):
            found = (
                allocate_assigned(allocations, uid, assigned, gpus)
                if assigned
                else allocate_any(allocations, uid, count, gpus)
            )
            if found is None:
                return False
            allocations = found
        for claim in claimed:
            self._claim_users.setdefault(claim, set()).add(uid)
        self._set_allocations(dict(allocations))
        return True

    def _gpus(self, available: Sequence[int]) -> MachineGpus:
        gpu = self.node.group.gpu
        return MachineGpus(available, find_geometry(gpu) if gpu is not None else None)

    def _set_allocations(self, allocations: dict[str, GpuAllocation]) -> None:
        before, self._allocations = self.mig_instances(), allocations
        if self.mig_instances() != before:
            self.instances_changed()

    def mig_instances(self) -> tuple[DeviceAssignment, ...]:
        """The MIG instances that pods and claims use."""
        return tuple(
            each
            for allocated in self._allocations.values()
            for each in allocated.assignments
            if each.profile
        )

    def missing_devices(
        self, assigned: Sequence[DeviceAssignment], claimed: ClaimedDevices = NO_CLAIMS
    ) -> tuple[DeviceAssignment, ...]:
        """The devices of a pod and its claims that the node's agent has not made yet."""
        made = self.made
        if made is None:
            return ()
        wanted = chain(assigned, *claimed.values())
        return tuple(each for each in wanted if not made.includes(each))

    def has_claims(self, uid: str) -> bool:
        """Whether devices of claims are allocated to a pod."""
        return any(uid in users for users in self._claim_users.values())

    def pods_using_gpu(self, gpu: int) -> set[str]:
        """The uids of the pods that use this GPU, or a part of it."""
        return {
            pod
            for uid, allocated in self._allocations.items()
            if allocated.uses_gpu(gpu)
            for pod in self._claim_users.get(uid, {uid})
        }

    def gpus_of(self, uid: str) -> list[int]:
        """The GPUs that a pod uses, wholly or in part."""
        return sorted({each.index for each in self._devices_of(uid)})

    def _devices_of(self, uid: str) -> Iterator[DeviceAssignment]:
        claims = (claim for claim, users in self._claim_users.items() if uid in users)
        for holder in (uid, *claims):
            if holder in self._allocations:
                yield from self._allocations[holder].assignments

    def lost_gpus_of(self, uid: str) -> list[int]:
        """The lost GPUs among those that a pod uses."""
        lost = self.faults.lost_gpus
        return [gpu for gpu in self.gpus_of(uid) if gpu in lost] if lost else []

    def reserve_address(self, uid: str, address: str) -> None:
        """Record the address of a pod that another process started."""
        self._addresses[uid] = address

    def release(self, uid: str) -> None:
        """Release the address and the GPUs of a pod."""
        self.waiting_pods.pop(uid, None)
        self._addresses.pop(uid, None)
        ended = {uid}
        for claim, users in self._claim_users.items():
            users.discard(uid)
            if not users:
                ended.add(claim)
        for claim in ended:
            self._claim_users.pop(claim, None)
        if not ended.isdisjoint(self._allocations):
            kept = {key: each for key, each in self._allocations.items() if key not in ended}
            self._set_allocations(kept)

    def allocate_address(self, uid: str) -> str:
        """The pod's address; the first free one, if it has none yet."""
        address = self._addresses.get(uid)
        if address is None:
            taken = set(self._addresses.values())
            numbers = (pod_address(self.node.number, n) for n in range(1, MAX_PODS + 1))
            address = next((each for each in numbers if each not in taken), "")
            self._addresses[uid] = address
        return address

    def _list_healthy_gpus(self) -> list[int]:
        return [gpu for gpu in range(self.gpu_count) if gpu not in self.faults.lost_gpus]
