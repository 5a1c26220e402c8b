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
    replicas: RequiredOne = 1
    min_available: One = 1
    rolling_update: RollingUpdate | None = None


class SelectedReplicas(msgspec.Struct, frozen=True, gc=False):
    """Ready replicas whose turn has come in an update."""

    current: Count
    completed: tuple[Count, ...] = ()


class ScalingGroupUpdateProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far an update of the replicas is."""

    update_started_at: Time
    pod_clique_set_generation_hash: str
    update_ended_at: Time | None = None
    updated_pod_cliques_count: Counted = 0
    total_pod_cliques_count: Counted = 0
    ready_replica_indices_selected_to_update: SelectedReplicas | None = None


class PodCliqueScalingGroupStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How the replicas are."""

    scheduled_replicas: RequiredCount = 0
    available_replicas: RequiredCount = 0
    updated_replicas: RequiredCount = 0
    replicas: Count = 0
    selector: str = ""
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    current_pod_clique_set_generation_hash: str = ""
    update_progress: ScalingGroupUpdateProgress | None = None


class PodCliqueScalingGroup(msgspec.Struct, gc=False):
    """Cliques scaled as one; made by the operator, scaled by anyone."""

    metadata: Metadata
    spec: PodCliqueScalingGroupSpec
    status: PodCliqueScalingGroupStatus = PodCliqueScalingGroupStatus()
