"""Workloads as their controllers see them.

Templates and selectors stay JSON: they are copied, compared and hashed, not interpreted. Of a
status only the changed fields are written, with zeros omitted where Kubernetes omits them.
"""

from typing import Any, ClassVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.local.apimachinery.selectors import LabelSelector, selector_from_object

IntOrPercent = int | str
"""A count, or a percentage of the total."""


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A status that can be written as JSON."""

    KEEP_ZERO: ClassVar[frozenset[str]] = frozenset()
    """Fields that are written even when they are zero."""

    def as_json(self) -> JsonObject:
        """The status as Kubernetes writes it."""
        fields: JsonObject = msgspec.to_builtins(self)
        # A pointer in Kubernetes: zero differs from absent.
        always_written = {"terminatingReplicas", "collisionCount"} | self.KEEP_ZERO
        return {
            name: value
            for name, value in fields.items()
            if value or (name in always_written and value is not None)
        }


class WorkloadObject(msgspec.Struct):
    """What all workloads have in common."""

    metadata: Metadata

    @property
    def label_selector_json(self) -> JsonObject:
        """Its label selector as JSON."""
        raise NotImplementedError

    @property
    def selector(self) -> LabelSelector:
        """Its label selector. Call it once per decision: it is parsed each time."""
        return selector_from_object(self.label_selector_json)


class ReplicaSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a ReplicaSet."""

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


class ReplicaSetStatus(WorkloadStatus, frozen=True, rename="camel"):
    """The status of a ReplicaSet."""

    KEEP_ZERO = frozenset({"replicas"})

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[ReplicaCondition, ...] = ()


class ReplicaSet(WorkloadObject):
    """A ReplicaSet."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()

    @property
    def label_selector_json(self) -> JsonObject:
        return self.spec.selector


class ReplicationController(ReplicaSet):
    """A ReplicationController, which is a ReplicaSet with equality-based selectors only."""

    @property
    def label_selector_json(self) -> JsonObject:
        return {"matchLabels": self.spec.selector}


class RollingUpdateStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """maxSurge and maxUnavailable of a rolling update."""

    max_surge: IntOrPercent = 0
    max_unavailable: IntOrPercent = 0
    partition: int = 0


class UpdateStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """How pods of an old template are replaced."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdateStrategy | None = None


class DeploymentSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a Deployment."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: JsonObject = {}
    template: JsonObject = {}
    strategy: UpdateStrategy = UpdateStrategy()
    paused: bool = False
    progress_deadline_seconds: int | None = None
    revision_history_limit: int | None = None


class DeploymentCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition with lastUpdateTime."""

    type: str
    status: str
    last_update_time: str = ""
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class DeploymentStatus(WorkloadStatus, frozen=True, rename="camel"):
    """The status of a Deployment."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    collision_count: int | None = None


class Deployment(WorkloadObject):
    """A Deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def label_selector_json(self) -> JsonObject:
        return self.spec.selector


class ClaimRetention(msgspec.Struct, frozen=True, rename="camel"):
    """What happens to claims when their pods are deleted."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(msgspec.Struct, frozen=True):
    """The first ordinal."""

    start: int = 0


class StatefulSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a StatefulSet."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: JsonObject = {}
    template: JsonObject = {}
    volume_claim_templates: tuple[JsonObject, ...] = ()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: int = 10
    ordinals: Ordinals = Ordinals()
    persistent_volume_claim_retention_policy: ClaimRetention = ClaimRetention()


class StatefulSetStatus(WorkloadStatus, frozen=True, rename="camel"):
    """The status of a StatefulSet."""

    KEEP_ZERO = frozenset({"replicas", "availableReplicas"})

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    available_replicas: int = 0


class StatefulSet(WorkloadObject):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def label_selector_json(self) -> JsonObject:
        return self.spec.selector


class DaemonSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a DaemonSet."""

    min_ready_seconds: int = 0
    selector: JsonObject = {}
    template: JsonObject = {}
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: int = 10


class DaemonSetStatus(WorkloadStatus, frozen=True, rename="camel"):
    """The status of a DaemonSet."""

    KEEP_ZERO = frozenset(
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


class DaemonSet(WorkloadObject):
    """A DaemonSet."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()

    @property
    def label_selector_json(self) -> JsonObject:
        return self.spec.selector


class ControllerRevision(msgspec.Struct):
    """A template of a StatefulSet or DaemonSet with a revision number."""

    metadata: Metadata
    revision: int = 0
    data: Any = None


class VolumeClaim(msgspec.Struct):
    """The metadata of a PersistentVolumeClaim."""

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
VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, VolumeClaim
)
