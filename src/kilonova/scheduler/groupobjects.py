"""Groups of pods as others write them: PodGroups of coscheduling (`scheduling.x-k8s.io`) and those
of Kubernetes itself (`scheduling.k8s.io`). What the scheduler decides by, and no more."""

import msgspec

from kilonova.api.meta import Condition, Metadata
from kilonova.kube import Resource

SCHEDULED = "PodGroupScheduled"
"""The condition by which a scheduler tells how far a PodGroup of Kubernetes is."""


class CoscheduledSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How many pods start together. What they need altogether, and how long they may wait for each
    other, is not read: they are placed at once, and only where all of them fit."""

    min_member: int = 1


class CoscheduledGroup(msgspec.Struct, gc=False):
    """A PodGroup of coscheduling."""

    metadata: Metadata
    spec: CoscheduledSpec = CoscheduledSpec()


class GangPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """So many pods start together."""

    min_count: int = 1


class SchedulingPolicy(msgspec.Struct, frozen=True, gc=False):
    """How pods of a group are placed; without `gang`, each on its own."""

    gang: GangPolicy | None = None


class GroupTopology(msgspec.Struct, frozen=True, gc=False):
    """All pods of a group stand within one domain."""

    key: str


class SchedulingConstraints(msgspec.Struct, frozen=True, gc=False):
    """Where pods of a group stand; a server lets at most one topology through."""

    topology: tuple[GroupTopology, ...] = ()


class NativeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a PodGroup of Kubernetes says."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | None = None
    priority: int | None = None


class NativeStatus(msgspec.Struct, frozen=True, gc=False):
    """How far it is."""

    conditions: tuple[Condition, ...] = ()

    @property
    def scheduled(self) -> Condition | None:
        """What was told of its place."""
        return next((each for each in self.conditions if each.type == SCHEDULED), None)


class NativeGroup(msgspec.Struct, gc=False):
    """A PodGroup of Kubernetes. Its Workload is not read: whoever makes the group copies into it
    what the Workload says."""

    metadata: Metadata
    spec: NativeSpec = NativeSpec()
    status: NativeStatus = NativeStatus()


COSCHEDULED = Resource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True, CoscheduledGroup
)
NATIVE = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True, NativeGroup)
