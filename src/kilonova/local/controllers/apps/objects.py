"""Sets of pods as their controllers see them.

Templates and selectors stay plain JSON: they are copied, compared and hashed, not read. A status
is written back by the fields that changed, with zeros left out where Kubernetes leaves them out.
"""

from typing import Any, ClassVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.local.selectors import LabelSelector, label_selector

Share = int | str
"""A count, or a percentage of the whole."""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """A status that knows how it is written."""

    ALWAYS: ClassVar[frozenset[str]] = frozenset()
    """Fields that are written even when they are zero."""

    def as_json(self) -> JsonObject:
        """The status as Kubernetes would write it."""
        fields: JsonObject = msgspec.to_builtins(self)
        # A pointer in Kubernetes: zero is something else than nothing.
        kept = {"terminatingReplicas", "collisionCount"} | self.ALWAYS
        return {
            name: value
            for name, value in fields.items()
            if value or (name in kept and value is not None)
        }


class PodSet(msgspec.Struct):
    """What all sets have in common."""

    metadata: Metadata

    @property
    def selection(self) -> JsonObject:
        """Its label selector, as an object."""
        raise NotImplementedError

    @property
    def selector(self) -> LabelSelector:
        """Which pods are its own. Read it once per decision: it is made anew each time."""
        return label_selector(self.selection)


class ReplicaSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a ReplicaSet should be."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: JsonObject = {}
    template: JsonObject = {}


class ReplicaCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition of a ReplicaSet."""

    type: str
    status: str
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class ReplicaSetStatus(Status, frozen=True, rename="camel"):
    """How a ReplicaSet is doing."""

    ALWAYS = frozenset({"replicas"})

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[ReplicaCondition, ...] = ()


class ReplicaSet(PodSet):
    """A number of equal pods."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()

    @property
    def selection(self) -> JsonObject:
        return self.spec.selector


class ReplicationController(ReplicaSet):
    """The ReplicaSet of old: its selector is a plain set of labels."""

    @property
    def selection(self) -> JsonObject:
        return {"matchLabels": self.spec.selector}


class RollingUpdate(msgspec.Struct, frozen=True, rename="camel"):
    """How far a rolling update may leave the number of pods."""

    max_surge: Share = 0
    max_unavailable: Share = 0
    partition: int = 0


class Strategy(msgspec.Struct, frozen=True, rename="camel"):
    """How pods of an old template are replaced."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a Deployment should be."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: JsonObject = {}
    template: JsonObject = {}
    strategy: Strategy = Strategy()
    paused: bool = False
    progress_deadline_seconds: int | None = None
    revision_history_limit: int | None = None


class DeploymentCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition that also says when it was last looked at."""

    type: str
    status: str
    last_update_time: str = ""
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class DeploymentStatus(Status, frozen=True, rename="camel"):
    """How a Deployment is doing."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    collision_count: int | None = None


class Deployment(PodSet):
    """ReplicaSets, one for each template that it has had."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def selection(self) -> JsonObject:
        return self.spec.selector


class ClaimRetention(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of the claims of pods that go."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(msgspec.Struct, frozen=True):
    """Where the numbers of pods begin."""

    start: int = 0


class StatefulSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a StatefulSet should be."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: JsonObject = {}
    template: JsonObject = {}
    volume_claim_templates: tuple[JsonObject, ...] = ()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: Strategy = Strategy()
    revision_history_limit: int = 10
    ordinals: Ordinals = Ordinals()
    persistent_volume_claim_retention_policy: ClaimRetention = ClaimRetention()


class StatefulSetStatus(Status, frozen=True, rename="camel"):
    """How a StatefulSet is doing."""

    ALWAYS = frozenset({"replicas", "availableReplicas"})

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    available_replicas: int = 0


class StatefulSet(PodSet):
    """Pods with names and storage of their own."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def selection(self) -> JsonObject:
        return self.spec.selector


class DaemonSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a DaemonSet should be."""

    min_ready_seconds: int = 0
    selector: JsonObject = {}
    template: JsonObject = {}
    update_strategy: Strategy = Strategy()
    revision_history_limit: int = 10


class DaemonSetStatus(Status, frozen=True, rename="camel"):
    """How a DaemonSet is doing."""

    ALWAYS = frozenset(
        {"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"}
    )

    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None


class DaemonSet(PodSet):
    """A pod on every node."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()

    @property
    def selection(self) -> JsonObject:
        return self.spec.selector


class ControllerRevision(msgspec.Struct):
    """A template of a StatefulSet or DaemonSet, under a number."""

    metadata: Metadata
    revision: int = 0
    data: Any = None


class Claim(msgspec.Struct):
    """A PersistentVolumeClaim: whose it is."""

    metadata: Metadata


REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True, ReplicaSet)
REPLICATION_CONTROLLERS = Resource(
    "", "v1", "replicationcontrollers", "ReplicationController", True, ReplicationController
)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True, Deployment)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True, StatefulSet)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True, DaemonSet)
REVISIONS = Resource(
    "apps", "v1", "controllerrevisions", "ControllerRevision", True, ControllerRevision
)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, Claim)
