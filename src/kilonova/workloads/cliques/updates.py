"""Updates of a clique that stands alone: which outdated pods go next, and how far it is. Pure.

Cliques of scaling groups are not updated pod by pod: all pods of a group's replica are replaced at
once, which their incarnation says. And no pod goes before the turn of its set's replica has come.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.durations import parse_duration
from kilonova.api.grove import PodClique, PodCliqueSet, names
from kilonova.api.grove.podclique import PodCliqueUpdateProgress, SelectedPods
from kilonova.api.times import later, parse_time, rfc3339
from kilonova.workloads.cliques.roster import (
    Roster,
    has_succeeded,
    index_in,
    is_current,
    is_up,
    needed,
)
from kilonova.workloads.keys import index_of
from kilonova.workloads.resources import Pod
from kilonova.workloads.room import homeless_from
from kilonova.workloads.sets.desire import replicas_in_turn, waits_for_deletion
from kilonova.workloads.shares import count_of, surge_of


@dataclass(frozen=True, slots=True)
class Step:
    """What an update does now."""

    size: int
    """How many members there should be."""
    leave: tuple[Pod, ...] = ()
    """Members that go."""
    selected: tuple[str, ...] = ()
    """Those of them that were ready."""
    after: datetime | None = None
    """When there may be more to do though nothing happens."""


def has_turn(clique: PodClique, set_: PodCliqueSet | None) -> bool:
    """Whether outdated pods may be replaced now."""
    if set_ is None or _is_member(clique) or waits_for_deletion(set_):
        return False
    return index_of(clique.metadata, names.SET_REPLICA_INDEX) in replicas_in_turn(set_)


def begun(
    clique: PodClique, roster: Roster, turn: bool, now: datetime
) -> PodCliqueUpdateProgress | None:
    """The update that the clique is in or has been through; a new one after a new template."""
    if _is_member(clique):
        return None
    status, labels = clique.status, clique.metadata.labels
    wanted = labels.get(names.POD_TEMPLATE_HASH, "")
    generation = labels.get(names.GENERATION_HASH, "")
    progress = status.update_progress
    known = status.current_pod_template_hash if progress is None else progress.pod_template_hash
    seen_first = not known and not roster.outdated
    reopened = progress is not None and progress.update_ended_at and turn and roster.outdated
    if reopened or (known != wanted and not seen_first):
        # What an update has taken that has not ended is still to be made up for.
        taken = progress.ready_pods_selected_to_update if progress and is_open(progress) else None
        return PodCliqueUpdateProgress(
            generation,
            wanted,
            update_started_at=rfc3339(now),
            ready_pods_selected_to_update=taken,
        )
    if progress is None or progress.pod_clique_set_generation_hash == generation:
        return progress
    return replace(progress, pod_clique_set_generation_hash=generation)


def taken_by(progress: PodCliqueUpdateProgress | None) -> int:
    """How many pods were ready when an update took them."""
    selected = progress.ready_pods_selected_to_update if progress else None
    return 0 if selected is None else len(selected.completed) + 1


def is_open(progress: PodCliqueUpdateProgress | None) -> bool:
    """Whether an update is under way."""
    return progress is not None and progress.update_ended_at is None


def next_step(
    clique: PodClique,
    roster: Roster,
    turn: bool,
    progress: PodCliqueUpdateProgress | None,
    now: datetime,
) -> Step:
    """What an update does with the members there are.

    Outdated ones that are not up go at once, the others oldest first while enough are up without
    them; one that there is no room for anyway is not waited for. Temporary ones are those beyond
    the replicas' indexes; they go when nobody needs them.
    """
    replicas = clique.spec.replicas
    if not is_open(progress) or replicas == 0:
        return Step(replicas)
    unavailable, surge = _allowed(clique)
    members, outdated = roster.members, roster.outdated
    temporary = _temporary(clique, roster) if surge else []
    extra = min(surge, max(len(outdated) if turn else 0, len(temporary)))
    up = sum(map(is_up, members))
    if outdated:
        if not turn:
            return Step(replicas + extra)
        without_room = [] if roster.leaves_room else _without_room(clique, members)
        expected = replicas - _homeless(clique, members, progress, without_room, now)
        spare = up - max(expected - unavailable, 0) if up >= needed(clique) else 0
        ready = sorted(filter(is_up, outdated), key=_age)[: max(spare, 0)]
        down = [pod for pod in outdated if not is_up(pod)]
        selected = tuple(pod.metadata.name for pod in ready)
        doubted = min((each for each in without_room if each > now), default=None)
        return Step(replicas + extra, (*down, *ready), selected, doubted)
    if sum(index_in(pod) < replicas for pod in members) < replicas:
        return Step(replicas + extra)
    spare = max(up - replicas, 0)
    ready = [pod for pod in reversed(temporary) if is_up(pod)][:spare]
    down = [pod for pod in temporary if not is_up(pod)]
    leave = (*down, *ready)
    return Step(replicas + min(extra, len(temporary) - len(leave)), leave)


def carried_on(
    progress: PodCliqueUpdateProgress | None,
    clique: PodClique,
    set_: PodCliqueSet | None,
    roster: Roster,
    step: Step,
    now: datetime,
) -> PodCliqueUpdateProgress | None:
    """An update with what this step selects; ended when there is nothing left to do."""
    if progress is None or progress.update_ended_at:
        return progress
    if step.selected:
        known = progress.ready_pods_selected_to_update
        before = () if known is None else (*known.completed, known.current)
        done = tuple(each for each in before if each not in step.selected)
        *others, last = step.selected
        selected = SelectedPods(last, (*done, *others))
        progress = replace(progress, ready_pods_selected_to_update=selected)
    if (set_ is not None and waits_for_deletion(set_)) or _is_done(clique, roster):
        progress = replace(progress, update_ended_at=rfc3339(now))
    return progress


def deadline_of(
    clique: PodClique, progress: PodCliqueUpdateProgress | None, members: Sequence[Pod]
) -> datetime | None:
    """When an update counts as stuck unless it gets on; None where none is, or nobody asked.

    It gets on whenever a pod of the new template gets ready.
    """
    how = clique.spec.rolling_update
    if progress is None or progress.update_ended_at or progress.update_started_at is None:
        return None
    if how is None or not how.progress_deadline:
        return None
    steps = [
        each.last_transition_time
        for pod in members
        if is_current(clique, pod)
        for each in pod.status.conditions
        if each.type == "Ready" and each.status == "True" and each.last_transition_time
    ]
    last = max(map(parse_time, (progress.update_started_at, *steps)))
    return later(last, parse_duration(how.progress_deadline))


def _without_room(clique: PodClique, members: Sequence[Pod]) -> list[datetime]:
    """From when on there is no room for members of the new template, as things are."""
    times = (homeless_from(pod) for pod in members if is_current(clique, pod))
    return [each for each in times if each is not None]


def _homeless(
    clique: PodClique,
    members: Sequence[Pod],
    progress: PodCliqueUpdateProgress | None,
    without_room: Sequence[datetime],
    now: datetime,
) -> int:
    """How many members there was no room for before the update took any."""
    back = sum(is_up(pod) and is_current(clique, pod) for pod in members)
    missed = max(0, taken_by(progress) - back)
    return max(0, sum(each <= now for each in without_room) - missed)


def _is_member(clique: PodClique) -> bool:
    return names.SCALING_GROUP in clique.metadata.labels


def _is_done(clique: PodClique, roster: Roster) -> bool:
    _, surge = _allowed(clique)
    return (
        not roster.outdated
        and len(roster.members) == clique.spec.replicas
        and not (surge and _temporary(clique, roster))
        and sum(map(is_up, roster.members)) >= needed(clique)
    )


def _temporary(clique: PodClique, roster: Roster) -> list[Pod]:
    beyond = [pod for pod in roster.members if index_in(pod) >= clique.spec.replicas]
    return [pod for pod in beyond if is_current(clique, pod) or has_succeeded(pod)]


def _allowed(clique: PodClique) -> tuple[int, int]:
    """How many pods may be missing, and how many too many; not both none, or nothing moves."""
    asked, replicas = clique.spec.rolling_update, clique.spec.replicas
    if asked is None:
        return 1, 0
    unavailable = count_of(asked.max_unavailable, replicas, 1)
    surge = surge_of(asked.max_surge, replicas)
    return (unavailable, surge) if unavailable or surge else (1, 0)


def _age(pod: Pod) -> tuple[str, int]:
    return pod.metadata.creation_timestamp, index_in(pod)
