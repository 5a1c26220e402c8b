"""The sizes of a Deployment's ReplicaSets during a rollout. Pure.

Sizes are returned as a dictionary from uid to replicas, with only the ReplicaSets whose size
changes. A ReplicaSet that is to be created has no uid yet.
"""

from collections.abc import Iterable, Sequence

from kilonova.local.controllers.apps.deployment.annotations import (
    desired_replicas_of,
    max_replicas_of,
)
from kilonova.local.controllers.apps.objects import Deployment, ReplicaSet, RollingUpdateStrategy
from kilonova.local.controllers.apps.pod_state import resolve_int_or_percent

ReplicaSetSizes = dict[str, int]


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def max_surge(deployment: Deployment) -> int:
    """How many pods there may be beyond the desired ones."""
    return _resolve_fenceposts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Deployment) -> int:
    """How many of the desired pods may be unavailable."""
    desired = deployment.spec.replicas
    if not is_rolling(deployment) or desired == 0:
        return 0
    return min(_resolve_fenceposts(deployment)[1], desired)


def _resolve_fenceposts(deployment: Deployment) -> tuple[int, int]:
    rolling = deployment.spec.strategy.rolling_update or RollingUpdateStrategy()
    surge = resolve_int_or_percent(rolling.max_surge, deployment.spec.replicas, round_up=True)
    unavailable = resolve_int_or_percent(
        rolling.max_unavailable, deployment.spec.replicas, round_up=False
    )
    # Rounding may leave both at 0; then one pod may be unavailable, or the rollout never starts.
    return (0, 1) if surge == unavailable == 0 else (surge, unavailable)


def sum_replicas(sets: Iterable[ReplicaSet]) -> int:
    return sum(each.spec.replicas for each in sets)


def compute_new_size(deployment: Deployment, old: Sequence[ReplicaSet], present: int) -> int:
    """The size that the newest ReplicaSet may have, given its current one and the old ones.

    Pods that an old ReplicaSet still has to delete count: it must have observed its new size and
    deleted them first.
    """
    desired = deployment.spec.replicas
    if not is_rolling(deployment):
        return desired
    if any(each.status.observed_generation < each.metadata.generation for each in old):
        return present
    taken = sum(max(each.spec.replicas, each.status.replicas) for each in old)
    headroom = desired + max_surge(deployment) - taken - present
    return present + min(headroom, desired - present) if headroom > 0 else present


def scale_up_new(
    deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet
) -> ReplicaSetSizes:
    """Scale up the newest ReplicaSet as far as maxSurge allows, or down to the desired number."""
    desired, current = deployment.spec.replicas, new.spec.replicas
    size = desired if current > desired else compute_new_size(deployment, old, current)
    return {} if size == current else {new.metadata.uid: size}


def scale_down_old(
    deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet
) -> ReplicaSetSizes:
    """Scale down old ReplicaSets: unavailable pods first, then within maxUnavailable.

    The available pods of a ReplicaSet are capped by its size: it may not have observed that it was
    scaled down.
    """
    active = sorted((each for each in old if each.spec.replicas > 0), key=creation_order)
    least = deployment.spec.replicas - max_unavailable(deployment)
    spare = sum_replicas([*active, new]) - least - (new.spec.replicas - _available_replicas(new))
    if spare <= 0:
        return {}
    sizes = {each.metadata.uid: each.spec.replicas for each in active}
    cleaned = 0
    for each in active:
        unhealthy = min(spare - cleaned, each.spec.replicas - _available_replicas(each))
        sizes[each.metadata.uid] -= unhealthy
        cleaned += unhealthy
    spare = sum(map(_available_replicas, active)) + _available_replicas(new) - least
    for each in active:
        if spare <= 0:
            break
        removed = min(sizes[each.metadata.uid], spare)
        sizes[each.metadata.uid] -= removed
        spare -= removed
    return _select_changed_sizes(sizes, active)


def _available_replicas(each: ReplicaSet) -> int:
    return min(each.status.available_replicas, each.spec.replicas)


def scale_proportionally(
    deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet | None
) -> tuple[ReplicaSetSizes, list[ReplicaSet]]:
    """Sizes after the desired number changed, and the ReplicaSets to annotate with it.

    If one ReplicaSet has all pods it takes the whole change; during a rollout the change is
    distributed in proportion, so that the rollout continues at the same rate.
    """
    every = [*old, *([new] if new is not None else [])]
    active = [each for each in every if each.spec.replicas > 0]
    desired = deployment.spec.replicas
    if len(active) <= 1:
        only = active[0] if active else new or max(old, key=creation_order, default=None)
        if only is None or only.spec.replicas == desired:
            return {}, []
        return {only.metadata.uid: desired}, [only]
    if new is not None and _is_saturated(deployment, new):
        shrunk = [each for each in active if each is not new]
        return {each.metadata.uid: 0 for each in shrunk}, shrunk
    if not is_rolling(deployment):
        return {}, []
    return _compute_proportional_sizes(deployment, active), active


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    desired = deployment.spec.replicas
    return new.spec.replicas == desired_replicas_of(new) == new.status.available_replicas == desired


def _compute_proportional_sizes(
    deployment: Deployment, active: list[ReplicaSet]
) -> ReplicaSetSizes:
    desired = deployment.spec.replicas
    allowed = desired + max_surge(deployment) if desired > 0 else 0
    to_add = allowed - sum_replicas(active)
    if to_add == 0:
        return {}
    # Of equal sizes the newer grow first, and the older shrink first.
    ordered = sorted(active, key=creation_order, reverse=to_add > 0)
    ordered.sort(key=lambda each: each.spec.replicas, reverse=True)
    sizes: ReplicaSetSizes = {}
    added = 0
    for each in ordered:
        part = _bounded_proportion(deployment, each, to_add, added)
        sizes[each.metadata.uid] = each.spec.replicas + part
        added += part
    largest = ordered[0].metadata.uid
    sizes[largest] = max(sizes[largest] + to_add - added, 0)
    return _select_changed_sizes(sizes, active)


def _bounded_proportion(deployment: Deployment, each: ReplicaSet, to_add: int, added: int) -> int:
    if to_add == added:
        return 0
    fraction, allowed = _replica_set_fraction(deployment, each), to_add - added
    return min(fraction, allowed) if to_add > 0 else max(fraction, allowed)


def _replica_set_fraction(deployment: Deployment, each: ReplicaSet) -> int:
    size = each.spec.replicas
    if deployment.spec.replicas == 0:
        return -size
    before = max_replicas_of(each) or deployment.status.replicas
    if before == 0:
        return 0
    now = deployment.spec.replicas + max_surge(deployment)
    return int(size * now / before + 0.5) - size


def _select_changed_sizes(sizes: ReplicaSetSizes, sets: Iterable[ReplicaSet]) -> ReplicaSetSizes:
    return {
        each.metadata.uid: sizes[each.metadata.uid]
        for each in sets
        if sizes[each.metadata.uid] != each.spec.replicas
    }


def creation_order(each: ReplicaSet) -> tuple[str, str]:
    """Sorts the oldest first."""
    return each.metadata.creation_timestamp, each.metadata.name
