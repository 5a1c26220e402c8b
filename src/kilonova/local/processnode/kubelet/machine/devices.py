"""GPUs of containers: whole ones, shares and MIG instances, as the scheduler assigned them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilonova.api.gpu.annotations import (
    DEVICES,
    DeviceAssignment,
    Gpu,
    InvalidAnnotation,
    parse_devices,
)
from kilonova.api.pods.resources import sum_containers
from kilonova.catalog.resource_names import GPU, MIG_PREFIX, mig_resource
from kilonova.local.processnode.kubelet.environment.downward_api import parse_amount
from kilonova.local.processnode.kubelet.objects import Container, Pod

_WHOLE_GPU_MILLI = DeviceAssignment(0).milli

Assignments = tuple[DeviceAssignment, ...]


class InsufficientGpus(Exception):
    """There are not enough free GPUs, shares of one, or MIG instances."""

    def __init__(self, resource: str, requested: int, used: int, capacity: int) -> None:
        super().__init__(
            f"Node didn't have enough resource: {resource}, requested: {requested}, "
            f"used: {used}, capacity: {capacity}"
        )


@dataclass(frozen=True, slots=True)
class ContainerAllocateRequest:
    """What a container requests by resource name, and what the scheduler assigned to its pod."""

    amounts: Mapping[str, int]
    assigned: Assignments = ()


class DeviceManager:
    """The GPUs of this machine in the order of their index, and the containers that hold them."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._whole = [
            DeviceAssignment(index)
            for index, gpu in enumerate(gpus)
            if gpu.healthy and not gpu.mig_enabled
        ]
        self._instances = {
            DeviceAssignment(index, 0, each.profile, each.start): each.uuid
            for index, gpu in enumerate(gpus)
            for each in gpu.instances
            if gpu.healthy
        }
        self._has_gpus = bool(gpus)
        self._allocations: dict[tuple[str, str], Assignments] = {}

    @property
    def capacity(self) -> dict[str, int]:
        """The number of whole GPUs, and of MIG instances by profile; all are extended resources."""
        counts = Counter(map(get_resource, (*self._whole, *self._instances)))
        return dict(counts)

    def restore(self, uid: str, container: str, assignments: Assignments) -> None:
        """Restore an assignment from before a restart of the kubelet."""
        self._allocations[uid, container] = assignments

    def allocate(self, uid: str, container: str, request: ContainerAllocateRequest) -> Assignments:
        """The devices of a container. If it has none yet: free ones that the scheduler assigned to
        its pod, or the first free ones if these are too few; where it requests none, the shares
        that the pod was assigned. May raise `InsufficientGpus`.
        """
        allocated = self._allocations.get((uid, container))
        if allocated is not None:
            return allocated
        chosen: list[DeviceAssignment] = []
        for resource, count in request.amounts.items():
            chosen += self._choose(resource, count, request.assigned)
        if not request.amounts:
            chosen += self._choose_shares(uid, request.assigned)
        if chosen:
            self._allocations[uid, container] = tuple(chosen)
        return tuple(chosen)

    def release(self, uid: str, container: str | None = None) -> None:
        """Release the devices of a container, or of a whole pod."""
        for key in [
            key for key in self._allocations if key[0] == uid and container in (None, key[1])
        ]:
            del self._allocations[key]

    def allocations_of(self, uid: str) -> dict[str, Assignments]:
        """The devices of a pod, by container."""
        return {key[1]: held for key, held in self._allocations.items() if key[0] == uid}

    def build_environment(self, assignments: Assignments) -> dict[str, str]:
        """The environment variables that select devices for CUDA, also an empty selection: GPUs by
        index, MIG instances by UUID.
        """
        if not self._has_gpus:
            return {}
        named = ",".join(self._instances.get(each, str(each.index)) for each in assignments)
        return {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": named,
            "NVIDIA_VISIBLE_DEVICES": named or "void",
        }

    def _choose(self, resource: str, count: int, assigned: Assignments) -> Assignments:
        """Free devices of a resource, preferably those assigned."""
        held = [each for devices in self._allocations.values() for each in devices]
        all_ = [each for each in (*self._whole, *self._instances) if get_resource(each) == resource]
        free = [each for each in all_ if not any(_conflicts(each, other) for other in held)]
        if len(free) < count:
            raise InsufficientGpus(resource, count, len(all_) - len(free), len(all_))
        wanted = [each for each in dict.fromkeys(assigned) if each in free]
        return tuple((free if len(wanted) < count else wanted)[:count])

    def _choose_shares(self, uid: str, assigned: Assignments) -> Assignments:
        """The shares of a pod, which all its containers use, if other pods leave as much."""
        shares = [each for each in assigned if not each.is_whole and not each.profile]
        for share in shares:
            used = sum(map(_held_milli, self._held_beside(uid, share)))
            is_present = DeviceAssignment(share.index) in self._whole
            capacity = _WHOLE_GPU_MILLI if is_present else 0
            if used + share.milli > capacity:
                name = f"{GPU} {share.index} (in thousandths)"
                raise InsufficientGpus(name, share.milli, used, capacity)
        return tuple(shares)

    def _held_beside(self, uid: str, share: DeviceAssignment) -> set[tuple[str, DeviceAssignment]]:
        """What pods have of a GPU beside a share, which all containers of its pod use."""
        return {
            (other, each)
            for (other, _), devices in self._allocations.items()
            for each in devices
            if each.index == share.index and (other, each) != (uid, share)
        }


def get_resource(assignment: DeviceAssignment) -> str:
    """The extended resource that a whole GPU or a MIG instance is counted as."""
    if not assignment.profile:
        return GPU
    return mig_resource(assignment.profile)


def build_request(pod: Pod, container: Container) -> ContainerAllocateRequest:
    """The devices that a container requests; without any, it may use the shares of its pod."""
    found = parse_devices(pod.metadata.annotations.get(DEVICES, ""))
    assigned = () if isinstance(found, InvalidAnnotation) else found
    return ContainerAllocateRequest(requested_devices(container), assigned)


def requested_devices(container: Container) -> dict[str, int]:
    """The numbers of GPUs and MIG instances that a container requests."""
    resources = container.resources
    amounts = {
        name: parse_amount(amount).value
        for name, amount in {**resources.requests, **resources.limits}.items()
        if name == GPU or name.startswith(MIG_PREFIX)
    }
    return {name: amount for name, amount in amounts.items() if amount}


def pod_devices(pod: Pod) -> dict[str, int]:
    """The numbers of GPUs and MIG instances that a pod needs at once."""
    return sum_containers(
        [requested_devices(each) for each in pod.spec.containers],
        [(requested_devices(each), each.restart_policy) for each in pod.spec.init_containers],
    )


def _conflicts(one: DeviceAssignment, other: DeviceAssignment) -> bool:
    """MIG instances of one GPU coexist; a whole GPU has nothing beside it."""
    if one.index != other.index:
        return False
    return one == other or not (one.profile and other.profile)


def _held_milli(held: tuple[str, DeviceAssignment]) -> int:
    assignment = held[1]
    return _WHOLE_GPU_MILLI if assignment.profile else assignment.milli
