"""How large each ReplicaSet of a Deployment may be. Pure.

Sizes are answered as a dictionary from uid to replicas, with only the sets whose size changes. A
ReplicaSet that is to be created has no uid yet.
"""

from collections.abc import Iterable, Sequence

from kilonova.local.controllers.apps.deployment.annotations import desired_of, max_of
from kilonova.local.controllers.apps.facts import share_of
from kilonova.local.controllers.apps.objects import Deployment, ReplicaSet, RollingUpdate

Sizes = dict[str, int]


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def max_surge(deployment: Deployment) -> int:
    """How many pods there may be beyond those wanted."""
    return _fenceposts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Deployment) -> int:
    """How many of the wanted pods may be unavailable."""
    wanted = deployment.spec.replicas
    if not is_rolling(deployment) or wanted == 0:
        return 0
    return min(_fenceposts(deployment)[1], wanted)


def _fenceposts(deployment: Deployment) -> tuple[int, int]:
    rolling = deployment.spec.strategy.rolling_update or RollingUpdate()
    surge = share_of(rolling.max_surge, deployment.spec.replicas, up=True)
    unavailable = share_of(rolling.max_unavailable, deployment.spec.replicas, up=False)
    # Rounding may leave neither; then one pod has to be missed, or nothing would ever move.
    return (0, 1) if surge == unavailable == 0 else (surge, unavailable)


def total(sets: Iterable[ReplicaSet]) -> int:
    return sum(each.spec.replicas for each in sets)


def size_of_new(deployment: Deployment, old: Sequence[ReplicaSet], present: int) -> int:
    """The size that the newest set may have, given its present one and the old sets.

    Pods that an old set has been told to remove still take their room: it must have heard of it
    first, and then have done it.
    """
    wanted = deployment.spec.replicas
    if not is_rolling(deployment):
        return wanted
    if any(each.status.observed_generation < each.metadata.generation for each in old):
        return present
    taken = sum(max(each.spec.replicas, each.status.replicas) for each in old)
    room = wanted + max_surge(deployment) - taken - present
    return present + min(room, wanted - present) if room > 0 else present


def grown_new(deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet) -> Sizes:
    """Let the newest set grow as far as the surge allows, or shrink to what is wanted."""
    wanted, present = deployment.spec.replicas, new.spec.replicas
    size = wanted if present > wanted else size_of_new(deployment, old, present)
    return {} if size == present else {new.metadata.uid: size}


def shrunk_old(deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet) -> Sizes:
    """Let old sets shrink: first by what is unavailable anyway, then by what can be missed.

    What a set has available is at most its size: it may have been told to shrink and not have
    done so yet.
    """
    active = sorted((each for each in old if each.spec.replicas > 0), key=by_age)
    least = deployment.spec.replicas - max_unavailable(deployment)
    spare = total([*active, new]) - least - (new.spec.replicas - _available(new))
    if spare <= 0:
        return {}
    sizes = {each.metadata.uid: each.spec.replicas for each in active}
    cleaned = 0
    for each in active:
        unhealthy = min(spare - cleaned, each.spec.replicas - _available(each))
        sizes[each.metadata.uid] -= unhealthy
        cleaned += unhealthy
    spare = sum(map(_available, active)) + _available(new) - least
    for each in active:
        if spare <= 0:
            break
        gone = min(sizes[each.metadata.uid], spare)
        sizes[each.metadata.uid] -= gone
        spare -= gone
    return _changed(sizes, active)


def _available(each: ReplicaSet) -> int:
    return min(each.status.available_replicas, each.spec.replicas)


def rescaled(
    deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet | None
) -> tuple[Sizes, list[ReplicaSet]]:
    """Sizes after the wanted number changed, and the sets that are to take note of the number.

    Where one set has all pods it takes the whole change; in the middle of a rollout each takes
    its share, so that the rollout neither hastens nor slows.
    """
    every = [*old, *([new] if new is not None else [])]
    active = [each for each in every if each.spec.replicas > 0]
    wanted = deployment.spec.replicas
    if len(active) <= 1:
        only = active[0] if active else new or max(old, key=by_age, default=None)
        if only is None or only.spec.replicas == wanted:
            return {}, []
        return {only.metadata.uid: wanted}, [only]
    if new is not None and _is_saturated(deployment, new):
        shrunk = [each for each in active if each is not new]
        return {each.metadata.uid: 0 for each in shrunk}, shrunk
    if not is_rolling(deployment):
        return {}, []
    return _proportional(deployment, active), active


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    wanted = deployment.spec.replicas
    return new.spec.replicas == desired_of(new) == new.status.available_replicas == wanted


def _proportional(deployment: Deployment, active: list[ReplicaSet]) -> Sizes:
    wanted = deployment.spec.replicas
    allowed = wanted + max_surge(deployment) if wanted > 0 else 0
    to_add = allowed - total(active)
    if to_add == 0:
        return {}
    # Of equal sizes the newer grow first, and the older shrink first.
    ordered = sorted(active, key=by_age, reverse=to_add > 0)
    ordered.sort(key=lambda each: each.spec.replicas, reverse=True)
    sizes: Sizes = {}
    added = 0
    for each in ordered:
        part = _proportion(deployment, each, to_add, added)
        sizes[each.metadata.uid] = each.spec.replicas + part
        added += part
    largest = ordered[0].metadata.uid
    sizes[largest] = max(sizes[largest] + to_add - added, 0)
    return _changed(sizes, active)


def _proportion(deployment: Deployment, each: ReplicaSet, to_add: int, added: int) -> int:
    if to_add == added:
        return 0
    fraction, allowed = _fraction(deployment, each), to_add - added
    return min(fraction, allowed) if to_add > 0 else max(fraction, allowed)


def _fraction(deployment: Deployment, each: ReplicaSet) -> int:
    size = each.spec.replicas
    if deployment.spec.replicas == 0:
        return -size
    before = max_of(each) or deployment.status.replicas
    if before == 0:
        return 0
    now = deployment.spec.replicas + max_surge(deployment)
    return int(size * now / before + 0.5) - size


def _changed(sizes: Sizes, sets: Iterable[ReplicaSet]) -> Sizes:
    return {
        each.metadata.uid: sizes[each.metadata.uid]
        for each in sets
        if sizes[each.metadata.uid] != each.spec.replicas
    }


def by_age(each: ReplicaSet) -> tuple[str, str]:
    """Sorts the oldest first."""
    return each.metadata.creation_timestamp, each.metadata.name
