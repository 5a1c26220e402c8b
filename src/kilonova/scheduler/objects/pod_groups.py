"""PodGroups of coscheduling (`scheduling.x-k8s.io`) and of Kubernetes (`scheduling.k8s.io`), with
only the fields that the scheduler uses."""

import msgspec

from kilonova.api.meta import Condition, Metadata
from kilonova.kube import Resource
from kilonova.kube.status import find_condition

POD_GROUP_SCHEDULED = "PodGroupScheduled"
"""The condition of a Kubernetes PodGroup that a scheduler sets."""


class CoschedulingPodGroupSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The minimum number of pods. `minResources` and `scheduleTimeoutSeconds` are not decoded: a
    group is placed at once, and only if its minimum fits."""

    min_member: int = 1


class CoschedulingPodGroup(msgspec.Struct, gc=False):
    """A PodGroup of coscheduling."""

    metadata: Metadata
    spec: CoschedulingPodGroupSpec = CoschedulingPodGroupSpec()


class GangSchedulingPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The minimum number of pods that start together."""

    min_count: int = 1


class SchedulingPolicy(msgspec.Struct, frozen=True, gc=False):
    """The scheduling policy of a group; without `gang`, pods are scheduled one by one."""

    gang: GangSchedulingPolicy | None = None


class PodGroupTopology(msgspec.Struct, frozen=True, gc=False):
    """A topology level within one domain of which all pods of a group are placed."""

    key: str


class SchedulingConstraints(msgspec.Struct, frozen=True, gc=False):
    """The scheduling constraints of a group; the API server accepts at most one topology."""

    topology: tuple[PodGroupTopology, ...] = ()


class KubernetesPodGroupSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a Kubernetes PodGroup."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | None = None
    priority: int | None = None


class KubernetesPodGroupStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of a Kubernetes PodGroup."""

    conditions: tuple[Condition, ...] = ()

    @property
    def scheduled_condition(self) -> Condition | None:
        """Its `PodGroupScheduled` condition."""
        return find_condition(self.conditions, POD_GROUP_SCHEDULED)


class KubernetesPodGroup(msgspec.Struct, gc=False):
    """A PodGroup of Kubernetes. Its Workload is not decoded: the controller that creates the group
    copies everything relevant."""

    metadata: Metadata
    spec: KubernetesPodGroupSpec = KubernetesPodGroupSpec()
    status: KubernetesPodGroupStatus = KubernetesPodGroupStatus()


COSCHEDULING_POD_GROUPS = Resource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True, CoschedulingPodGroup
)
KUBERNETES_POD_GROUPS = Resource(
    "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True, KubernetesPodGroup
)
