"""Finds the constraint that keeps a gang pending.

By elimination: the constraint without which the gang fits is the blocking one.
"""

from functools import reduce

import numpy as np

from kilonova.scheduler.core.backfill.shadow import BackfillReservation
from kilonova.scheduler.core.decisions import (
    InsufficientCapacity,
    SchedulerError,
    UnschedulableReason,
)
from kilonova.scheduler.core.explain import formatting
from kilonova.scheduler.core.explain.blocking_constraint import BlockingConstraint
from kilonova.scheduler.core.explain.diagnosis import (
    CLAIMED_DEVICES,
    CONNECTED_GPUS,
    diagnose_nodes,
    find_scarce_resources,
    lacks_connection,
)
from kilonova.scheduler.core.explain.nearest_domain import (
    CandidateDomain,
    GroupDemand,
    measure_all_nodes,
)
from kilonova.scheduler.core.explain.placement_constraints import list_constraints, relax_constraint
from kilonova.scheduler.core.explain.protected_victims import (
    find_protected_under_limits,
    find_protected_victims,
)
from kilonova.scheduler.core.explain.topology_constraints import (
    describe_pod_rules,
    find_blocking_topology,
)
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.filters.inter_pod_rules import inter_pod_rejections
from kilonova.scheduler.core.filters.node_filters import FilterReason
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.model.cluster import gang_charges
from kilonova.scheduler.core.model.gang_validation import InvalidGang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.queueing.ledger import LimitExceeded
from kilonova.scheduler.core.queueing.queues import QueueProblem
from kilonova.scheduler.core.topology.gang_tree import build_gang_tree


def find_blocking_constraint(
    trial: TrialCluster,
    gang: Gang,
    reason: UnschedulableReason,
    now: float,
    reservation: BackfillReservation | None,
) -> BlockingConstraint:
    """The constraint that keeps a gang pending; `gang` has only its required pods."""
    match reason:
        case QueueProblem():
            return BlockingConstraint("InvalidQueue", str(reason), queue=reason.queue)
        case InvalidGang():
            return BlockingConstraint("InvalidGang", str(reason))
        case LimitExceeded():
            return _check_queue_limit(trial, gang, reason, now)
        case InsufficientCapacity() | SchedulerError():
            blocked = trial.cluster.used.first_exceeded_limit(gang.queue, gang_charges(gang))
    if blocked is not None:  # exceeded since the decision, or by surplus pods
        return _check_queue_limit(trial, gang, blocked, now)
    exceeded = isinstance(reason, InsufficientCapacity) and reason.search_exceeded
    if not exceeded and trial.fits(gang):
        return _check_reservation(gang, now, reservation)
    return (
        _check_matching_nodes(trial, gang)
        or _check_protected_victims(trial, gang, now)
        or _check_capacity(trial, gang)
        or _check_anti_affinity(trial, gang)
        or (_search_exhausted() if exceeded else None)
        or _check_combined_capacity(trial, gang)
        or find_blocking_topology(trial, gang)
    )


def _search_exhausted() -> BlockingConstraint:
    text = "the search budget was exceeded before a placement was found"
    return BlockingConstraint(
        "SearchBudgetExceeded",
        f"{text}: reduce the number of groups, different pods or shared claims",
    )


def _check_queue_limit(
    trial: TrialCluster, gang: Gang, exceeded: LimitExceeded, now: float
) -> BlockingConstraint:
    limit, used, requested = (
        formatting.format_queue_amount(exceeded.resource, number)
        for number in (exceeded.limit, exceeded.used, exceeded.requested)
    )
    text = (
        f'queue "{exceeded.queue}" may use {limit} {exceeded.resource}: '
        f"{used} in use, {requested} more requested"
    )
    left = max(0, exceeded.limit - exceeded.used)
    protected = find_protected_under_limits(trial, gang, now)
    if protected:
        named = formatting.format_names([str(each) for each in protected], 2)
        text += f"; victims that free capacity there are protected: {named}"
    return BlockingConstraint(
        "QueueLimitReached",
        text,
        queue=exceeded.queue,
        resource=exceeded.resource,
        requested=exceeded.requested,
        available=left,
        missing=exceeded.excess,
        gangs=tuple(each.gang for each in protected),
        protected_victims=protected,
    )


def _check_reservation(
    gang: Gang, now: float, reservation: BackfillReservation | None
) -> BlockingConstraint:
    ends = None if gang.duration is None else now + gang.duration
    if (
        reservation is None
        or reservation.gang.name == gang.name
        or (ends is not None and ends <= reservation.start_time)
    ):
        return BlockingConstraint("RetryPending", "capacity is available now: it will be retried")
    text = f"it would fit, but must not delay {reservation.gang.name}, which starts at"
    return BlockingConstraint(
        "ReservedForBackfill",
        f"{text} {formatting.format_time(reservation.start_time)}",
        gangs=(reservation.gang.name,),
        start_time=reservation.start_time,
    )


def _check_matching_nodes(trial: TrialCluster, gang: Gang) -> BlockingConstraint | None:
    rows = trial.live_rows()
    for leaf in build_gang_tree(gang).leaves():
        assert leaf.group is not None
        for shape, requested in leaf.required_shapes:
            if not (trial.feasibility.rejection_reasons(shape)[rows] == FilterReason.FITS).any():
                name = leaf.group.name
                member = next(each for each in leaf.group.members if each.shape == shape)
                counts = diagnose_nodes(trial, name, member).counts
                texts = "; ".join(f"{count.nodes} {count.text}" for count in counts[:3])
                text = f"no node is feasible for a pod of group {name}"
                return BlockingConstraint(
                    "NoMatchingNode",
                    f"{text}: {texts}" if texts else text,
                    group=name,
                    requested=requested,
                )
    return None


def _check_protected_victims(
    trial: TrialCluster, gang: Gang, now: float
) -> BlockingConstraint | None:
    found = find_protected_victims(trial, gang, now)
    if not found:
        return None
    named = formatting.format_names([str(each) for each in found], 2)
    text = f"it would fit by preempting gangs that are protected: {named}"
    return BlockingConstraint(
        "VictimsProtected", text, gangs=tuple(each.gang for each in found), protected_victims=found
    )


def _check_capacity(trial: TrialCluster, gang: Gang) -> BlockingConstraint | None:
    domain = measure_all_nodes(trial, build_gang_tree(gang))
    for demand in domain.demands:
        if demand.missing:
            return _describe_missing(
                trial, demand, domain, is_single_pod=len(gang.groups) == demand.requested == 1
            )
    return None


def _describe_missing(
    trial: TrialCluster, demand: GroupDemand, domain: CandidateDomain, *, is_single_pod: bool
) -> BlockingConstraint:
    shape = demand.shape
    snapshot = trial.snapshot
    fits = domain.rows[trial.feasibility.rejection_reasons(shape)[domain.rows] == FilterReason.FITS]
    names, which = find_scarce_resources(trial, shape, fits)
    resource = names[int(np.bincount(which, minlength=len(names)).argmax())]
    each = dict(shape.requests).get(resource) or _gpus_per_pod(shape)
    missing = demand.missing * each
    free = int(np.maximum(snapshot.free[snapshot.column(resource), fits], 0).sum())
    text = (
        ""
        if is_single_pod
        else f"group {demand.group} needs {formatting.format_pods(demand.requested)}, "
        f"but only {demand.available} fit: "
    )
    more = "pod" if demand.missing == 1 else "pods"
    if lacks_connection(trial, shape, fits).any():
        text += f"{CONNECTED_GPUS} for {demand.missing} more {more} are needed"
    elif resource in dict(shape.requests) and free >= demand.requested * each:
        amount = formatting.format_amount(resource, free)
        text += (
            f"{amount} are free, but too fragmented for {formatting.format_number(resource, each)}"
        )
    elif resource == CLAIMED_DEVICES or not each:
        # Claims have no amount of a resource that nodes list; and the fraction of a GPU that holds
        # the requested memory depends on the GPU.
        text += f"{resource} for {demand.missing} more {more} are needed"
    else:
        are = "is" if missing == 1 else "are"
        text += f"{formatting.format_number(resource, missing)} more {resource} {are} needed"
    return BlockingConstraint(
        "InsufficientCapacity",
        text,
        group=demand.group,
        resource=resource,
        requested=demand.requested,
        available=demand.available,
        missing=missing,
    )


def _gpus_per_pod(shape: Shape) -> float:
    """GPUs of a pod, or the fraction of them; 0 where that depends on the GPU."""
    if shape.gpu is None:
        return 1
    return (
        shape.gpu.count if shape.gpu.profile else shape.gpu.count * shape.gpu.milli / MILLI_PER_GPU
    )


def _check_anti_affinity(trial: TrialCluster, gang: Gang) -> BlockingConstraint | None:
    """Whether rules of placed pods reject all rows with free capacity."""
    rows = trial.live_rows()
    for group in gang.groups:
        if not group.needed:
            continue
        rejections = inter_pod_rejections(trial.snapshot, group.members[0])
        capacity = trial.feasibility.free_capacity(group.members[0].shape)[rows]
        if (
            rejections is not None
            and not ((rejections[rows] == FilterReason.FITS) & (capacity > 0)).any()
        ):
            return describe_pod_rules(trial, group)
    return None


def _check_combined_capacity(trial: TrialCluster, gang: Gang) -> BlockingConstraint | None:
    constraints = list_constraints(gang)
    if len(constraints) == 1:
        fits = trial.fits_relaxed(gang, constraints[0])
    else:
        fits = bool(constraints) and trial.fits(reduce(relax_constraint, constraints, gang))
    if fits:
        return None
    requested: dict[str, int] = {}
    for leaf in build_gang_tree(gang).leaves():
        for shape, required in leaf.required_shapes:
            for name, amount in shape.requests:
                requested[name] = requested.get(name, 0) + amount * required
    rows = trial.live_rows()
    snapshot = trial.snapshot
    left = {
        name: int(np.maximum(snapshot.free[snapshot.column(name), rows], 0).sum())
        for name in requested
    }
    resource = max(
        requested, key=lambda name: (requested[name] / max(1, left[name]), name), default=""
    )
    text = "each group fits by itself, but not all together"
    missing = max(0, requested.get(resource, 0) - left.get(resource, 0))
    if missing:
        request, have = requested[resource], left[resource]
        text += f": {formatting.format_amount(resource, request)} requested, "
        text += f"{formatting.format_number(resource, have)} free"
    return BlockingConstraint(
        "InsufficientCombinedCapacity", text, resource=resource if missing else "", missing=missing
    )
