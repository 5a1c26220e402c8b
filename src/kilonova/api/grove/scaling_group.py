"""PodCliqueScalingGroup: cliques that are scaled together."""

import msgspec

from kilonova.api.grove.common import (
    CountOrZero,
    Int32,
    LastError,
    ReplicasOrOne,
    RequiredCountOrZero,
    RequiredReplicasOrOne,
    RollingUpdate,
)
from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import Time


class PodCliqueScalingGroupSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Cliques that are replicated together."""

    clique_names: tuple[str, ...]
    """The cliques of each replica, by their names in the set."""
    replicas: RequiredReplicasOrOne = 1
    """The number of replicas; changed through /scale."""
    min_available: ReplicasOrOne = 1
    """The number of replicas that are scheduled together with the rest of the set's replica."""
    rolling_update: RollingUpdate | None = None


class ReplicaSelection(msgspec.Struct, frozen=True, gc=False):
    """Ready replicas selected for replacement in an update."""

    current: Int32
    """The replica that is being replaced."""
    completed: tuple[Int32, ...] = ()
    """Replicas that have been replaced."""


class ScalingGroupUpdateProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The progress of an update of the replicas."""

    update_started_at: Time
    """When the update started."""
    pod_clique_set_generation_hash: str
    """The revision of the set that the replicas are updated to."""
    update_ended_at: Time | None = None
    """When the update was complete."""
    available_replicas_at_start: Int32 | None = None
    """The replicas that were available when the update started: the update does not wait for other
    replicas, which could not be scheduled."""
    updated_pod_cliques_count: CountOrZero = 0
    """The number of cliques that are up to date."""
    total_pod_cliques_count: CountOrZero = 0
    """The number of cliques of all replicas."""
    ready_replica_indices_selected_to_update: ReplicaSelection | None = None


class PodCliqueScalingGroupStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of the replicas."""

    scheduled_replicas: RequiredCountOrZero = 0
    """The number of replicas in which every clique has its minimum of scheduled pods."""
    available_replicas: RequiredCountOrZero = 0
    """The number of replicas in which every clique has its minimum of ready pods."""
    updated_replicas: RequiredCountOrZero = 0
    """The number of replicas created from the newest template."""
    replicas: Int32 = 0
    """The desired number of replicas, which autoscalers divide by: replicas that are still being
    created must not count as missing."""
    selector: str = ""
    """The label selector of the pods of the group."""
    observed_generation: int | None = None
    """The generation that this status describes."""
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    current_pod_clique_set_generation_hash: str = ""
    """The revision of the set that all replicas were created from."""
    update_progress: ScalingGroupUpdateProgress | None = None


class PodCliqueScalingGroup(msgspec.Struct, gc=False):
    """Cliques that are scaled together; created by the operator, scalable by users."""

    metadata: Metadata
    spec: PodCliqueScalingGroupSpec
    status: PodCliqueScalingGroupStatus = PodCliqueScalingGroupStatus()
