"""PodCliqueScalingGroup: cliques that are scaled as one."""

import msgspec

from kilonova.api.grove.parts import (
    Count,
    Counted,
    LastError,
    One,
    RequiredCount,
    RequiredOne,
    RollingUpdate,
)
from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import Time


class PodCliqueScalingGroupSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Cliques of which there are several replicas together."""

    clique_names: tuple[str, ...]
    """The cliques of each replica, as the set calls them."""
    replicas: RequiredOne = 1
    """How many replicas; changed through /scale."""
    min_available: One = 1
    """So many replicas are placed together with the rest of the set's replica."""
    rolling_update: RollingUpdate | None = None


class SelectedReplicas(msgspec.Struct, frozen=True, gc=False):
    """Ready replicas whose turn has come in an update."""

    current: Count
    """The replica that is being replaced."""
    completed: tuple[Count, ...] = ()
    """Replicas that were replaced."""


class ScalingGroupUpdateProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far an update of the replicas is."""

    update_started_at: Time
    """When the new template was seen."""
    pod_clique_set_generation_hash: str
    """Revision of the set that the replicas are updated to."""
    update_ended_at: Time | None = None
    """When the last replica was up to date."""
    available_replicas_at_start: Count | None = None
    """Replicas that were available when the update began: it does not wait for others that have no
    room."""
    updated_pod_cliques_count: Counted = 0
    """Cliques that are up to date."""
    total_pod_cliques_count: Counted = 0
    """Cliques of all replicas."""
    ready_replica_indices_selected_to_update: SelectedReplicas | None = None


class PodCliqueScalingGroupStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How the replicas are."""

    scheduled_replicas: RequiredCount = 0
    """Replicas whose cliques all have enough pods with a node."""
    available_replicas: RequiredCount = 0
    """Replicas whose cliques all have enough pods that are ready."""
    updated_replicas: RequiredCount = 0
    """Replicas made from the newest template."""
    replicas: Count = 0
    """Replicas that are asked for: autoscalers divide by them, and are not to take some that are
    still being made for a shortage."""
    selector: str = ""
    """Finds the pods of the group."""
    observed_generation: int | None = None
    """The generation of the object that this status is about."""
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    current_pod_clique_set_generation_hash: str = ""
    """Revision of the set that all replicas are made from."""
    update_progress: ScalingGroupUpdateProgress | None = None


class PodCliqueScalingGroup(msgspec.Struct, gc=False):
    """Cliques scaled as one; made by the operator, scaled by anyone."""

    metadata: Metadata
    spec: PodCliqueScalingGroupSpec
    status: PodCliqueScalingGroupStatus = PodCliqueScalingGroupStatus()
