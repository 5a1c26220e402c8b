"""What a ReplicaSet should do, and what its status should say. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.times import rfc3339
from kilonova.local.controllers.apps.facts import is_available
from kilonova.local.controllers.apps.hands import BURST
from kilonova.local.controllers.apps.objects import (
    ReplicaCondition,
    ReplicaSet,
    ReplicaSetStatus,
)
from kilonova.local.controllers.apps.replicaset.order import first_to_go
from kilonova.local.controllers.objects import Pod
from kilonova.local.kinds.walk import part

REPLICA_FAILURE = "ReplicaFailure"


@dataclass(frozen=True, slots=True)
class Desired:
    """How many pods to make, or which to remove."""

    create: int = 0
    delete: tuple[Pod, ...] = ()


def desire(
    replica_set: ReplicaSet, active: list[Pod], related: Iterable[Pod], now: datetime
) -> Desired:
    """Bring the number of active pods to what is wanted, in bounded steps."""
    if replica_set.metadata.deletion_timestamp is not None:
        return Desired()
    missing = replica_set.spec.replicas - len(active)
    if missing > 0:
        return Desired(create=min(missing, BURST))
    if missing < 0:
        going = first_to_go(active, related, min(-missing, BURST), now)
        return Desired(delete=tuple(going))
    return Desired()


def status_of(
    replica_set: ReplicaSet,
    active: Sequence[Pod],
    going: int | None,
    failure: str | None,
    now: datetime,
) -> ReplicaSetStatus:
    """The status that these pods make; `failure` is why pods could not be made or removed.

    `going` is how many pods are being deleted; a ReplicationController does not say.
    """
    spec = replica_set.spec
    labels: dict[str, str] = part(spec.template, "metadata", "labels")
    ready = [pod for pod in active if pod.ready]
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, spec.min_ready_seconds, now) for pod in ready),
        terminating_replicas=going,
        observed_generation=replica_set.metadata.generation,
        conditions=_conditions(replica_set, len(active), failure, now),
    )


def _conditions(
    replica_set: ReplicaSet, active: int, failure: str | None, now: datetime
) -> tuple[ReplicaCondition, ...]:
    known = replica_set.status.conditions
    failed = any(each.type == REPLICA_FAILURE for each in known)
    if failure is None:
        return tuple(each for each in known if each.type != REPLICA_FAILURE)
    if failed:
        return known
    reason = "FailedCreate" if active < replica_set.spec.replicas else "FailedDelete"
    new = ReplicaCondition(REPLICA_FAILURE, "True", rfc3339(now), reason, failure)
    return (*known, new)
