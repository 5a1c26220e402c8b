"""The desired pods and status of a clique. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, islice

from kilonova.api.grove import PodClique, PodCliqueSet
from kilonova.api.grove.podclique import PodCliqueStatus
from kilonova.api.podgang import PodGang
from kilonova.workloads.builders.pods import choose_pod_name
from kilonova.workloads.controllers.podclique.completion import (
    has_exceeded_backoff_limit,
    is_complete,
)
from kilonova.workloads.controllers.podclique.gates import (
    is_gang_present,
    list_schedulable_names,
    select_pods_to_ungate,
    select_unreleased_pods,
)
from kilonova.workloads.controllers.podclique.status import CliqueProgress, build_status
from kilonova.workloads.controllers.podclique.updates import (
    UpdateStep,
    advance_update,
    compute_progress_deadline,
    may_update_pods,
    plan_update_step,
    start_update,
)
from kilonova.workloads.limits import LimitViolation
from kilonova.workloads.pods.classification import (
    ClassifiedPods,
    classify_pods,
    has_succeeded,
    is_current,
    require_pod_index,
)
from kilonova.workloads.pods.state import is_gated, is_ready, is_scheduled
from kilonova.workloads.resources import Pod
from kilonova.workloads.update_strategy import is_coherent

_MAX_CREATES_PER_RECONCILE = 1000
"""Further pods are planned once these exist."""


@dataclass(frozen=True, slots=True)
class ObservedClique:
    """Everything that the desired state of a clique depends on, at one time."""

    clique: PodClique
    set_: PodCliqueSet | None
    pods: Sequence[Pod]
    gang: PodGang | None = None
    """The clique's gang."""
    base_gang: PodGang | None = None
    """The base gang, if the clique's gang is a scaled one."""
    backoff_seconds: Mapping[int, float] = field(default_factory=dict[int, float])
    """Indexes whose pods have failed, with the seconds until the next attempt."""
    are_dependencies_ready: Callable[[], bool] = lambda: True
    """Whether all startup dependencies have started; called only if a pod waits for them."""
    is_replica_coherent: Callable[[], bool] = lambda: True
    """Whether no object of another revision is left in the replica; called only in coherent
    updates, and only if a pod waits for it.
    """
    limit_violation: LimitViolation | None = None
    """Why the replicas exceed a limit; then no pods are created."""


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod to create."""

    index: int
    name: str
    gated: bool
    released: bool


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What to write."""

    status: PodCliqueStatus
    create: tuple[NewPod, ...] = ()
    delete: tuple[Pod, ...] = ()
    ungate: tuple[Pod, ...] = ()
    release: tuple[Pod, ...] = ()
    requeue_after: float | None = None
    """Seconds until the next reconcile if nothing changes."""

    @property
    def is_idle(self) -> bool:
        """Whether no pod is to be written."""
        return not (self.create or self.delete or self.ungate or self.release)


def desire(observed: ObservedClique, now: datetime) -> PodPlan:
    """Plan the pods of a clique; the status describes them before the plan is applied."""
    clique, set_ = observed.clique, observed.set_
    pods = classify_pods(clique, observed.pods)
    may_update = may_update_pods(clique, set_)
    progress = start_update(clique, pods, may_update, now)
    failed, complete = has_exceeded_backoff_limit(set_, pods), is_complete(clique, pods)
    if failed:
        # The clique has failed: pods that still run are of no use.
        running = tuple(pod for pod in pods.members if not has_succeeded(pod))
        step = UpdateStep(len(pods.members) - len(running), running)
    elif complete:
        step = UpdateStep(min(len(pods.members), clique.spec.replicas))
    elif observed.limit_violation is not None:
        step = UpdateStep(len(pods.members))
    else:
        step = plan_update_step(clique, pods, may_update, progress, now)
    progress = advance_update(progress, clique, set_, pods, step, now)
    deadline = compute_progress_deadline(clique, progress, pods.members)
    kept_pods = _select_pods_to_keep(clique, pods, step)
    kept_names = {pod.metadata.name for pod in kept_pods}
    unreleased = select_unreleased_pods(clique, kept_pods)
    free, waits = _list_free_indexes(observed, kept_pods, step.size)
    for time in (deadline, step.recheck_at):
        if time and time > now:
            waits.append((time - now).total_seconds())
    return PodPlan(
        status=build_status(
            clique, pods, CliqueProgress(progress, deadline, complete, failed), now
        ),
        create=tuple(_plan_new_pods(observed, pods, free)),
        delete=(
            *pods.to_delete,
            *(pod for pod in pods.members if pod.metadata.name not in kept_names),
        ),
        ungate=_select_pods_to_ungate(observed, kept_pods),
        release=unreleased if unreleased and observed.are_dependencies_ready() else (),
        requeue_after=min(waits, default=None),
    )


def _select_pods_to_keep(clique: PodClique, pods: ClassifiedPods, step: UpdateStep) -> list[Pod]:
    """The members without those that the step deletes, and without surplus ones."""
    gone = {pod.metadata.name for pod in step.delete}
    left = [pod for pod in pods.members if pod.metadata.name not in gone]
    surplus = len(left) - step.size
    if surplus <= 0:
        return left
    gone = {
        pod.metadata.name
        for pod in sorted(left, key=lambda pod: _deletion_rank(clique, pod))[:surplus]
    }
    return [pod for pod in left if pod.metadata.name not in gone]


def _deletion_rank(clique: PodClique, pod: Pod) -> tuple[bool, bool, bool, bool, int]:
    """Sorts the least valuable pods first."""
    return (
        has_succeeded(pod),
        is_scheduled(pod),
        is_ready(pod),
        is_current(clique, pod),
        -require_pod_index(pod),
    )


def _list_free_indexes(
    observed: ObservedClique, kept_names: Sequence[Pod], size: int
) -> tuple[list[int], list[float]]:
    """The lowest free indexes, as many as pods are missing and may be created at once; and the
    seconds until pods may be created at indexes in backoff.
    """
    missing = size - len(kept_names)
    free, waits = list[int](), list[float]()
    if missing <= 0 or not is_gang_present(observed.clique, observed.gang):
        return free, waits
    used = {require_pod_index(pod) for pod in kept_names}
    for index in islice((each for each in count() if each not in used), missing):
        if index in observed.backoff_seconds:
            waits.append(observed.backoff_seconds[index])
        else:
            free.append(index)
        if len(free) == _MAX_CREATES_PER_RECONCILE:
            break
    return free, waits


def _plan_new_pods(
    observed: ObservedClique, pods: ClassifiedPods, indexes: Sequence[int]
) -> Iterator[NewPod]:
    if not indexes:
        return
    clique = observed.clique
    listed = _list_schedulable_names(observed)
    released = bool(clique.spec.starts_after) and observed.are_dependencies_ready()
    for index in indexes:
        name = choose_pod_name(clique.metadata.name, index, pods.names)
        yield NewPod(index, name, listed is not None and name not in listed, released)


def _select_pods_to_ungate(observed: ObservedClique, kept_names: Sequence[Pod]) -> tuple[Pod, ...]:
    gated = [pod for pod in kept_names if is_gated(pod)]
    if not gated:
        return ()
    return select_pods_to_ungate(gated, _list_schedulable_names(observed))


def _list_schedulable_names(observed: ObservedClique) -> frozenset[str] | None:
    """Names of the pods that may be scheduled; None for all."""
    if (
        observed.set_ is not None
        and is_coherent(observed.set_)
        and not observed.is_replica_coherent()
    ):
        return frozenset()
    return list_schedulable_names(observed.clique, observed.gang, observed.base_gang)
