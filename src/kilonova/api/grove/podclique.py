"""PodClique: pods of one role."""

import msgspec

from kilonova.api.grove.parts import (
    AutoScaling,
    Count,
    LastError,
    Natural,
    PodSpec,
    RequiredCount,
    RequiredOne,
    RollingUpdate,
)
from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import Time


class PodCliqueSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The pods of a role."""

    pod_spec: PodSpec
    """The pods, as in any template of pods."""
    replicas: RequiredOne
    """How many pods; changed through /scale once the clique is there."""
    role_name: str = ""
    """What the pods do, in a word; no two cliques of a set do the same. The name of the clique,
    where it is not said."""
    min_available: Natural | None = None
    """With fewer pods than this the clique is of no use; all, where it is not said."""
    starts_after: tuple[str, ...] = ()
    """Cliques that must have started before this one does."""
    auto_scaling_config: AutoScaling | None = msgspec.field(default=None, name="autoScalingConfig")
    rolling_update: RollingUpdate | None = None
    """How its pods are replaced in an update."""


class SelectedPods(msgspec.Struct, frozen=True, gc=False):
    """Ready pods whose turn has come in an update."""

    current: str
    """The pod that is being replaced."""
    completed: tuple[str, ...] = ()
    """Pods that were replaced."""


class PodCliqueUpdateProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far an update of the pods is."""

    pod_clique_set_generation_hash: str
    """Revision of the set that the pods are updated to."""
    pod_template_hash: str
    """Template that the pods are updated to."""
    update_started_at: Time | None = None
    """When the new template was seen."""
    update_ended_at: Time | None = None
    """When the last pod was up to date."""
    ready_pods_selected_to_update: SelectedPods | None = None


class PodCliqueStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How the pods are."""

    ready_replicas: RequiredCount = 0
    """Pods that are ready."""
    updated_replicas: RequiredCount = 0
    """Pods made from the newest template."""
    schedule_gated_replicas: RequiredCount = 0
    """Pods that may not be scheduled yet."""
    scheduled_replicas: RequiredCount = 0
    """Pods that have a node."""
    replicas: Count = 0
    """Pods that are not ending."""
    succeeded_replicas: Count = 0
    """Pods that have done their work."""
    observed_generation: int | None = None
    """The generation of the object that this status is about."""
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    hpa_pod_selector: str = ""
    """Finds the pods, where the clique is scaled by itself."""
    current_pod_clique_set_generation_hash: str = ""
    """Revision of the set that all pods are made from."""
    current_pod_template_hash: str = ""
    """Template that all pods are made from."""
    update_progress: PodCliqueUpdateProgress | None = None
    healthy_incarnation: Count | None = None
    """The last incarnation in which enough pods were up."""


class PodClique(msgspec.Struct, gc=False):
    """Pods of one role; made by the operator, scaled by anyone."""

    metadata: Metadata
    spec: PodCliqueSpec
    status: PodCliqueStatus = PodCliqueStatus()

    @property
    def min_available(self) -> int:
        """How many pods it must have."""
        return self.spec.replicas if self.spec.min_available is None else self.spec.min_available
