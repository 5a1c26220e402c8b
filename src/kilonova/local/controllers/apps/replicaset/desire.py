"""Which pods of a ReplicaSet to create and delete, and its status. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.times import format_rfc3339
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.controllers.apps.objects import (
    ReplicaCondition,
    ReplicaSet,
    ReplicaSetStatus,
)
from kilonova.local.controllers.apps.pod_control import BURST_REPLICAS
from kilonova.local.controllers.apps.pod_state import is_available
from kilonova.local.controllers.apps.replicaset.deletion_order import select_pods_to_delete
from kilonova.local.objects.core import Pod

REPLICA_FAILURE = "ReplicaFailure"


@dataclass(frozen=True, slots=True)
class DesiredPods:
    """How many pods to create, or which to delete."""

    create: int = 0
    delete: tuple[Pod, ...] = ()


def desire(
    replica_set: ReplicaSet, active: list[Pod], related: Iterable[Pod], now: datetime
) -> DesiredPods:
    """Bring the number of active pods to the desired one, in bounded steps."""
    if replica_set.metadata.deletion_timestamp is not None:
        return DesiredPods()
    missing = replica_set.spec.replicas - len(active)
    if missing > 0:
        return DesiredPods(create=min(missing, BURST_REPLICAS))
    if missing < 0:
        to_delete = select_pods_to_delete(active, related, min(-missing, BURST_REPLICAS), now)
        return DesiredPods(delete=tuple(to_delete))
    return DesiredPods()


def compute_status(
    replica_set: ReplicaSet,
    active: Sequence[Pod],
    terminating: int | None,
    failure: str | None,
    now: datetime,
) -> ReplicaSetStatus:
    """The status computed from these pods; `failure` is why pods could not be created or deleted.

    `terminating` counts pods that are being deleted; a ReplicationController does not report it.
    """
    spec = replica_set.spec
    labels: dict[str, str] = nested_object(spec.template, "metadata", "labels")
    ready = [pod for pod in active if pod.is_ready]
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, spec.min_ready_seconds, now) for pod in ready),
        terminating_replicas=terminating,
        observed_generation=replica_set.metadata.generation,
        conditions=_update_conditions(replica_set, len(active), failure, now),
    )


def _update_conditions(
    replica_set: ReplicaSet, active: int, failure: str | None, now: datetime
) -> tuple[ReplicaCondition, ...]:
    conditions = replica_set.status.conditions
    failed = any(each.type == REPLICA_FAILURE for each in conditions)
    if failure is None:
        return tuple(each for each in conditions if each.type != REPLICA_FAILURE)
    if failed:
        return conditions
    reason = "FailedCreate" if active < replica_set.spec.replicas else "FailedDelete"
    new = ReplicaCondition(REPLICA_FAILURE, "True", format_rfc3339(now), reason, failure)
    return (*conditions, new)
