"""PodClique: pods of one role."""

import msgspec

from kilonova.api.grove.common import (
    AutoScaling,
    Int32,
    LastError,
    NonNegativeInt,
    PodSpec,
    RequiredCountOrZero,
    RequiredReplicasOrOne,
    RollingUpdate,
)
from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import Time


class PodCliqueSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The pods of a role."""

    pod_spec: PodSpec
    """The spec of the pods, as in any pod template."""
    replicas: RequiredReplicasOrOne
    """The number of pods; changed through /scale once the clique exists."""
    role_name: str = ""
    """The role of the pods; unique among the cliques of a set. Defaults to the name of the
    clique."""
    min_available: NonNegativeInt | None = None
    """The minimum number of pods that the clique needs to work. Defaults to replicas."""
    starts_after: tuple[str, ...] = ()
    """Cliques that must be started before this one."""
    auto_scaling_config: AutoScaling | None = msgspec.field(default=None, name="autoScalingConfig")
    rolling_update: RollingUpdate | None = None
    """How the pods are replaced in an update."""


class PodSelection(msgspec.Struct, frozen=True, gc=False):
    """Ready pods selected for replacement in an update."""

    current: str
    """The pod that is being replaced."""
    completed: tuple[str, ...] = ()
    """Pods that have been replaced."""


class PodCliqueUpdateProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The progress of an update of the pods."""

    pod_clique_set_generation_hash: str
    """The revision of the set that the pods are updated to."""
    pod_template_hash: str
    """The template hash that the pods are updated to."""
    update_started_at: Time | None = None
    """When the update started."""
    update_ended_at: Time | None = None
    """When the update was complete."""
    ready_pods_selected_to_update: PodSelection | None = None


class PodCliqueStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of the pods."""

    ready_replicas: RequiredCountOrZero = 0
    """The number of ready pods."""
    updated_replicas: RequiredCountOrZero = 0
    """The number of pods created from the newest template."""
    schedule_gated_replicas: RequiredCountOrZero = 0
    """The number of pods with scheduling gates."""
    scheduled_replicas: RequiredCountOrZero = 0
    """The number of scheduled pods."""
    replicas: Int32 = 0
    """The number of pods that are not terminating."""
    succeeded_replicas: Int32 = 0
    """The number of succeeded pods."""
    observed_generation: int | None = None
    """The generation that this status describes."""
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    hpa_pod_selector: str = ""
    """The label selector of the pods, if the clique is scaled by itself."""
    current_pod_clique_set_generation_hash: str = ""
    """The revision of the set that all pods were created from."""
    current_pod_template_hash: str = ""
    """The template hash that all pods were created from."""
    update_progress: PodCliqueUpdateProgress | None = None
    healthy_incarnation: Int32 | None = None
    """The last restart after which enough pods were ready."""


class PodClique(msgspec.Struct, gc=False):
    """Pods of one role; created by the operator, scalable by users."""

    metadata: Metadata
    spec: PodCliqueSpec
    status: PodCliqueStatus = PodCliqueStatus()

    @property
    def min_available(self) -> int:
        """The minimum number of pods that the clique needs."""
        return self.spec.replicas if self.spec.min_available is None else self.spec.min_available
