"""What exists of an instance. Values only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kilonova.api.inference_engine import InferenceEngineInstance, names
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Reservation
from kilonova.instances.controllers.instance.record import AllocationRecord, read_record
from kilonova.instances.resources import ChildObject, Node, Pod
from kilonova.scheduler.library.topology_levels import DomainPath, domain_path

FindNode = Callable[[str], Node | None]


@dataclass(frozen=True)
class ObservedAllocation:
    """A gang of an instance, and the pods that were created for it."""

    number: int
    """How often the instance was relocated before."""
    gang: PodGang
    record: AllocationRecord
    pods: Mapping[str, Pod]
    """By name."""

    @property
    def was_allocated(self) -> bool:
        """Whether all members had a node once."""
        return self.gang.status.last_scheduled is not None


@dataclass(frozen=True)
class ObservedInstance:
    """An instance and all that exists of it."""

    instance: InferenceEngineInstance
    pods: Sequence[Pod]
    """Pods with its label, also those that are not its own."""
    gangs: Sequence[PodGang]
    """Gangs with its label."""
    reservations: Sequence[Reservation]
    """Reservations with its label."""
    services: Sequence[ChildObject]
    """Services with its label."""
    find_node: FindNode
    levels: tuple[str, ...]
    """The levels of the cluster's topology, broadest first."""

    @cached_property
    def allocations(self) -> tuple[ObservedAllocation, ...]:
        """Its allocations; the newest, which is the one that it is to have, first."""
        found: list[ObservedAllocation] = []
        for gang in self.gangs:
            if self.is_own(gang.metadata) and gang.metadata.deletion_timestamp is None:
                number = get_allocation(gang.metadata)
                pods = {pod.metadata.name: pod for pod in self._list_pods(number)}
                found.append(ObservedAllocation(number, gang, read_record(gang), pods))
        return tuple(sorted(found, key=lambda each: -each.number))

    @cached_property
    def stray_pods(self) -> tuple[Pod, ...]:
        """Its pods of allocations that have no gang any more."""
        known = {each.number for each in self.allocations}
        return tuple(pod for pod in self.own_pods if get_allocation(pod.metadata) not in known)

    @cached_property
    def own_pods(self) -> tuple[Pod, ...]:
        """The pods that it controls."""
        return tuple(pod for pod in self.pods if self.is_own(pod.metadata))

    @cached_property
    def own_reservations(self) -> tuple[Reservation, ...]:
        """The reservations that it controls, which are not being deleted."""
        return tuple(
            each
            for each in self.reservations
            if self.is_own(each.metadata) and each.metadata.deletion_timestamp is None
        )

    @property
    def next_number(self) -> int:
        """The number of an allocation without a predecessor: one that is larger than those of pods
        that still exist, so that they are not taken for its own."""
        numbers = [get_allocation(pod.metadata) for pod in self.own_pods]
        return max([self.instance.status.repairs.relocated, *(each + 1 for each in numbers)])

    def is_own(self, metadata: Metadata) -> bool:
        """Whether the instance controls an object."""
        owner = metadata.controller
        return owner is not None and owner.uid == self.instance.metadata.uid

    def _list_pods(self, allocation: int) -> list[Pod]:
        return [pod for pod in self.own_pods if get_allocation(pod.metadata) == allocation]


def get_allocation(metadata: Metadata) -> int:
    """The number of the allocation that an object belongs to; -1 if it has none."""
    text = metadata.labels.get(names.ALLOCATION, "")
    return int(text) if text.isascii() and text.isdecimal() else -1


def find_domain_path(find_node: FindNode, name: str, levels: Sequence[str]) -> DomainPath:
    """Where a node is."""
    node = find_node(name)
    return domain_path({} if node is None else node.metadata.labels, levels)
