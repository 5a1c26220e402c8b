"""Rolling updates of standalone cliques: which outdated pods are replaced next. Pure.

Cliques of scaling groups are not updated pod by pod: all pods of a group replica are replaced at
once, by a new incarnation. No pod is replaced before its set's replica may be updated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.durations import parse_duration
from kilonova.api.grove import PodClique, PodCliqueSet, names
from kilonova.api.grove.podclique import PodCliqueUpdateProgress, PodSelection
from kilonova.api.int_or_percent import resolve_int_or_percent, resolve_max_surge
from kilonova.api.times import add_seconds, format_rfc3339, parse_time
from kilonova.workloads.keys import get_label_index
from kilonova.workloads.pods.classification import (
    ClassifiedPods,
    count_required_pods,
    has_succeeded,
    is_current,
    is_ready_or_succeeded,
    require_pod_index,
)
from kilonova.workloads.pods.schedulability import compute_unplaced_from
from kilonova.workloads.resources import Pod
from kilonova.workloads.update_strategy import is_on_delete, list_updating_replicas


@dataclass(frozen=True, slots=True)
class UpdateStep:
    """The next step of an update."""

    size: int
    """The desired number of members."""
    delete: tuple[Pod, ...] = ()
    """Members to delete."""
    selected: tuple[str, ...] = ()
    """Names of the deleted members that were ready."""
    recheck_at: datetime | None = None
    """When the next step may be possible without a change."""


def may_update_pods(clique: PodClique, set_: PodCliqueSet | None) -> bool:
    """Whether outdated pods may be replaced now."""
    if set_ is None or _is_in_scaling_group(clique) or is_on_delete(set_):
        return False
    return get_label_index(clique.metadata, names.SET_REPLICA_INDEX) in list_updating_replicas(set_)


def start_update(
    clique: PodClique, pods: ClassifiedPods, may_update: bool, now: datetime
) -> PodCliqueUpdateProgress | None:
    """The current or last update of the clique; a new one after a change of the template."""
    if _is_in_scaling_group(clique):
        return None
    status, labels = clique.status, clique.metadata.labels
    wanted = labels.get(names.POD_TEMPLATE_HASH, "")
    generation = labels.get(names.GENERATION_HASH, "")
    progress = status.update_progress
    known = status.current_pod_template_hash if progress is None else progress.pod_template_hash
    seen_first = not known and not pods.outdated
    reopened = progress is not None and progress.update_ended_at and may_update and pods.outdated
    if reopened or (known != wanted and not seen_first):
        # Pods that an unfinished update has taken still have to become available again.
        taken = (
            progress.ready_pods_selected_to_update
            if progress and is_update_open(progress)
            else None
        )
        return PodCliqueUpdateProgress(
            generation,
            wanted,
            update_started_at=format_rfc3339(now),
            ready_pods_selected_to_update=taken,
        )
    if progress is None or progress.pod_clique_set_generation_hash == generation:
        return progress
    return replace(progress, pod_clique_set_generation_hash=generation)


def count_selected_pods(progress: PodCliqueUpdateProgress | None) -> int:
    """How many ready pods an update has selected for replacement."""
    selected = progress.ready_pods_selected_to_update if progress else None
    return 0 if selected is None else len(selected.completed) + 1


def is_update_open(progress: PodCliqueUpdateProgress | None) -> bool:
    """Whether an update has started and not ended."""
    return progress is not None and progress.update_ended_at is None


def plan_update_step(
    clique: PodClique,
    pods: ClassifiedPods,
    may_update: bool,
    progress: PodCliqueUpdateProgress | None,
    now: datetime,
) -> UpdateStep:
    """The next step of an update, given the members.

    Outdated members that are not ready are deleted at once, the others oldest first while enough
    are ready without them; unplaced members are not waited for. Surge pods have indexes beyond the
    replicas; they are deleted when they are no longer needed.
    """
    replicas = clique.spec.replicas
    if not is_update_open(progress) or replicas == 0:
        return UpdateStep(replicas)
    unavailable, surge = _get_update_limits(clique)
    members, outdated = pods.members, pods.outdated
    surge_pods = _list_surge_pods(clique, pods) if surge else []
    extra = min(surge, max(len(outdated) if may_update else 0, len(surge_pods)))
    available = sum(map(is_ready_or_succeeded, members))
    if outdated:
        if not may_update:
            return UpdateStep(replicas + extra)
        unplaced_times = [] if pods.is_releasing_capacity else _list_unplaced_times(clique, members)
        expected = replicas - _count_unplaced(clique, members, progress, unplaced_times, now)
        spare = (
            available - max(expected - unavailable, 0)
            if available >= count_required_pods(clique)
            else 0
        )
        ready = sorted(filter(is_ready_or_succeeded, outdated), key=_creation_order)[
            : max(spare, 0)
        ]
        down = [pod for pod in outdated if not is_ready_or_succeeded(pod)]
        selected = tuple(pod.metadata.name for pod in ready)
        recheck_at = min((each for each in unplaced_times if each > now), default=None)
        return UpdateStep(replicas + extra, (*down, *ready), selected, recheck_at)
    if sum(require_pod_index(pod) < replicas for pod in members) < replicas:
        return UpdateStep(replicas + extra)
    spare = max(available - replicas, 0)
    ready = [pod for pod in reversed(surge_pods) if is_ready_or_succeeded(pod)][:spare]
    down = [pod for pod in surge_pods if not is_ready_or_succeeded(pod)]
    delete = (*down, *ready)
    return UpdateStep(replicas + min(extra, len(surge_pods) - len(delete)), delete)


def advance_update(
    progress: PodCliqueUpdateProgress | None,
    clique: PodClique,
    set_: PodCliqueSet | None,
    pods: ClassifiedPods,
    step: UpdateStep,
    now: datetime,
) -> PodCliqueUpdateProgress | None:
    """The update with the members that this step selects; ended when nothing is left to do."""
    if progress is None or progress.update_ended_at:
        return progress
    if step.selected:
        known = progress.ready_pods_selected_to_update
        before = () if known is None else (*known.completed, known.current)
        done = tuple(each for each in before if each not in step.selected)
        *others, last = step.selected
        selected = PodSelection(last, (*done, *others))
        progress = replace(progress, ready_pods_selected_to_update=selected)
    if (set_ is not None and is_on_delete(set_)) or _is_update_done(clique, pods):
        progress = replace(progress, update_ended_at=format_rfc3339(now))
    return progress


def compute_progress_deadline(
    clique: PodClique, progress: PodCliqueUpdateProgress | None, members: Sequence[Pod]
) -> datetime | None:
    """When an update exceeds progressDeadline; None if none is in progress or no deadline is set.

    A pod of the new template that becomes ready is progress.
    """
    rolling_update = clique.spec.rolling_update
    if progress is None or progress.update_ended_at or progress.update_started_at is None:
        return None
    if rolling_update is None or not rolling_update.progress_deadline:
        return None
    steps = [
        each.last_transition_time
        for pod in members
        if is_current(clique, pod)
        for each in pod.status.conditions
        if each.type == "Ready" and each.status == "True" and each.last_transition_time
    ]
    last = max(map(parse_time, (progress.update_started_at, *steps)))
    return add_seconds(last, parse_duration(rolling_update.progress_deadline))


def _list_unplaced_times(clique: PodClique, members: Sequence[Pod]) -> list[datetime]:
    """From when on members of the new template count as unplaced."""
    times = (compute_unplaced_from(pod) for pod in members if is_current(clique, pod))
    return [each for each in times if each is not None]


def _count_unplaced(
    clique: PodClique,
    members: Sequence[Pod],
    progress: PodCliqueUpdateProgress | None,
    unplaced_times: Sequence[datetime],
    now: datetime,
) -> int:
    """How many members were unplaced before the update took any."""
    replaced = sum(is_ready_or_succeeded(pod) and is_current(clique, pod) for pod in members)
    missing = max(0, count_selected_pods(progress) - replaced)
    return max(0, sum(each <= now for each in unplaced_times) - missing)


def _is_in_scaling_group(clique: PodClique) -> bool:
    return names.SCALING_GROUP in clique.metadata.labels


def _is_update_done(clique: PodClique, pods: ClassifiedPods) -> bool:
    _, surge = _get_update_limits(clique)
    return (
        not pods.outdated
        and len(pods.members) == clique.spec.replicas
        and not (surge and _list_surge_pods(clique, pods))
        and sum(map(is_ready_or_succeeded, pods.members)) >= count_required_pods(clique)
    )


def _list_surge_pods(clique: PodClique, pods: ClassifiedPods) -> list[Pod]:
    beyond = [pod for pod in pods.members if require_pod_index(pod) >= clique.spec.replicas]
    return [pod for pod in beyond if is_current(clique, pod) or has_succeeded(pod)]


def _get_update_limits(clique: PodClique) -> tuple[int, int]:
    """maxUnavailable and maxSurge; never both 0, or no pod could be replaced."""
    rolling_update, replicas = clique.spec.rolling_update, clique.spec.replicas
    if rolling_update is None:
        return 1, 0
    unavailable = resolve_int_or_percent(rolling_update.max_unavailable, replicas, 1)
    surge = resolve_max_surge(rolling_update.max_surge, replicas)
    return (unavailable, surge) if unavailable or surge else (1, 0)


def _creation_order(pod: Pod) -> tuple[str, int]:
    return pod.metadata.creation_timestamp, require_pod_index(pod)
