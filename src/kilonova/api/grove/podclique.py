"""PodClique: pods of one role."""

import msgspec

from kilonova.api.grove.parts import (
    AutoScaling,
    Count,
    LastError,
    PodSpec,
    RequiredCount,
    RequiredOne,
    RollingUpdate,
)
from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import Time


class PodCliqueSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The pods of a role."""

    role_name: str
    """What the pods do, in a word; no two cliques of a set do the same."""
    pod_spec: PodSpec
    replicas: RequiredOne
    """How many pods; changed through /scale once the clique is there."""
    min_available: Count | None = None
    """With fewer pods than this the clique is of no use; all, where it is not said."""
    starts_after: tuple[str, ...] = ()
    """Cliques that must have started before this one does."""
    auto_scaling_config: AutoScaling | None = msgspec.field(default=None, name="autoScalingConfig")
    rolling_update: RollingUpdate | None = None
    """How its pods are replaced in an update."""


class SelectedPods(msgspec.Struct, frozen=True, gc=False):
    """Ready pods whose turn has come in an update."""

    current: str
    completed: tuple[str, ...] = ()


class PodCliqueUpdateProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far an update of the pods is."""

    pod_clique_set_generation_hash: str
    pod_template_hash: str
    update_started_at: Time | None = None
    update_ended_at: Time | None = None
    ready_pods_selected_to_update: SelectedPods | None = None


class PodCliqueStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How the pods are."""

    ready_replicas: RequiredCount = 0
    updated_replicas: RequiredCount = 0
    schedule_gated_replicas: RequiredCount = 0
    scheduled_replicas: RequiredCount = 0
    replicas: Count = 0
    """Pods that are not ending."""
    succeeded_replicas: Count = 0
    """Pods that have done their work."""
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    hpa_pod_selector: str = ""
    current_pod_clique_set_generation_hash: str = ""
    current_pod_template_hash: str = ""
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
