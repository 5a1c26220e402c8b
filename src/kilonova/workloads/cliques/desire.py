"""What a clique should do with its pods, and what its status should say. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, islice

from kilonova.api.grove import PodClique, PodCliqueSet
from kilonova.api.grove.podclique import PodCliqueStatus
from kilonova.api.podgang import PodGang
from kilonova.workloads.cliques.completion import has_failed, is_complete
from kilonova.workloads.cliques.release import has_gang, placeable, to_ungate, unreleased
from kilonova.workloads.cliques.roster import (
    Roster,
    has_succeeded,
    index_in,
    is_current,
    roster_of,
)
from kilonova.workloads.cliques.status import Course, status_of
from kilonova.workloads.cliques.updates import (
    Step,
    begun,
    carried_on,
    deadline_of,
    has_turn,
    next_step,
)
from kilonova.workloads.limits import Excess
from kilonova.workloads.pods import is_gated, is_ready, is_scheduled
from kilonova.workloads.resources import Pod
from kilonova.workloads.sets.desire import is_coherent
from kilonova.workloads.templates.pods import pod_name

_AT_ONCE = 1000
"""Pods made in a round: those that come after are planned when these are there."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a clique's pods depend on, at one time."""

    clique: PodClique
    set_: PodCliqueSet | None
    pods: Sequence[Pod]
    gang: PodGang | None = None
    """The clique's own."""
    base_gang: PodGang | None = None
    """The one that is placed before it, if its own is a scaled one."""
    held_back: Mapping[int, float] = field(default_factory=dict[int, float])
    """Indexes whose pods have failed, with the seconds until there may be another."""
    dependencies_ready: Callable[[], bool] = lambda: True
    """Whether all that the clique starts after has started; asked only if a pod waits for it."""
    replica_is_of_one_version: Callable[[], bool] = lambda: True
    """Whether nothing in the replica is left of another version; asked only where it must not be,
    and only if a pod waits for it."""
    excess: Excess | None = None
    """Why there may not be as many pods as the clique asks for; then there are no more."""


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod to make."""

    index: int
    name: str
    gated: bool
    released: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write."""

    status: PodCliqueStatus
    create: tuple[NewPod, ...] = ()
    delete: tuple[Pod, ...] = ()
    ungate: tuple[Pod, ...] = ()
    release: tuple[Pod, ...] = ()
    after: float | None = None
    """Seconds until it should be looked at again though nothing happens."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done to pods."""
        return not (self.create or self.delete or self.ungate or self.release)


def desire(seen: Seen, now: datetime) -> Plan:
    """Bring the pods of a clique to what is wanted; its status is as they are before that."""
    clique, set_ = seen.clique, seen.set_
    roster = roster_of(clique, seen.pods)
    turn = has_turn(clique, set_)
    progress = begun(clique, roster, turn, now)
    failed, complete = has_failed(set_, roster), is_complete(clique, roster)
    if failed:
        # Nothing will come of those that still run.
        running = tuple(pod for pod in roster.members if not has_succeeded(pod))
        step = Step(len(roster.members) - len(running), running)
    elif complete:
        step = Step(min(len(roster.members), clique.spec.replicas))
    elif seen.excess is not None:
        step = Step(len(roster.members))
    else:
        step = next_step(clique, roster, turn, progress, now)
    progress = carried_on(progress, clique, set_, roster, step, now)
    deadline = deadline_of(clique, progress, roster.members)
    staying = _staying(clique, roster, step)
    kept = {pod.metadata.name for pod in staying}
    waiting = unreleased(clique, staying)
    free, waits = _free_indexes(seen, staying, step.size)
    for then in (deadline, step.after):
        if then and then > now:
            waits.append((then - now).total_seconds())
    return Plan(
        status=status_of(clique, roster, Course(progress, deadline, complete, failed), now),
        create=tuple(_new_pods(seen, roster, free)),
        delete=(
            *roster.dismissed,
            *(pod for pod in roster.members if pod.metadata.name not in kept),
        ),
        ungate=_ungate(seen, staying),
        release=waiting if waiting and seen.dependencies_ready() else (),
        after=min(waits, default=None),
    )


def _staying(clique: PodClique, roster: Roster, step: Step) -> list[Pod]:
    """The members without those whose time has come, and without those that are too many."""
    gone = {pod.metadata.name for pod in step.leave}
    left = [pod for pod in roster.members if pod.metadata.name not in gone]
    surplus = len(left) - step.size
    if surplus <= 0:
        return left
    gone = {
        pod.metadata.name for pod in sorted(left, key=lambda pod: _worth(clique, pod))[:surplus]
    }
    return [pod for pod in left if pod.metadata.name not in gone]


def _worth(clique: PodClique, pod: Pod) -> tuple[bool, bool, bool, bool, int]:
    """Sorts those first that are missed least."""
    return (
        has_succeeded(pod),
        is_scheduled(pod),
        is_ready(pod),
        is_current(clique, pod),
        -index_in(pod),
    )


def _free_indexes(seen: Seen, staying: Sequence[Pod], size: int) -> tuple[list[int], list[float]]:
    """The lowest indexes that nobody holds, as many as pods are missing, but not more than are
    made at once; and the seconds until pods may be made at others of them."""
    missing = size - len(staying)
    free, waits = list[int](), list[float]()
    if missing <= 0 or not has_gang(seen.clique, seen.gang):
        return free, waits
    held = {index_in(pod) for pod in staying}
    for index in islice((each for each in count() if each not in held), missing):
        if index in seen.held_back:
            waits.append(seen.held_back[index])
        else:
            free.append(index)
        if len(free) == _AT_ONCE:
            break
    return free, waits


def _new_pods(seen: Seen, roster: Roster, indexes: Sequence[int]) -> Iterator[NewPod]:
    if not indexes:
        return
    clique = seen.clique
    listed = _placeable(seen)
    released = bool(clique.spec.starts_after) and seen.dependencies_ready()
    for index in indexes:
        name = pod_name(clique.metadata.name, index, roster.names)
        yield NewPod(index, name, listed is not None and name not in listed, released)


def _ungate(seen: Seen, staying: Sequence[Pod]) -> tuple[Pod, ...]:
    gated = [pod for pod in staying if is_gated(pod)]
    if not gated:
        return ()
    return to_ungate(gated, _placeable(seen))


def _placeable(seen: Seen) -> frozenset[str] | None:
    """Names of the pods that may be placed; None for all."""
    if seen.set_ is not None and is_coherent(seen.set_) and not seen.replica_is_of_one_version():
        return frozenset()
    return placeable(seen.clique, seen.gang, seen.base_gang)
