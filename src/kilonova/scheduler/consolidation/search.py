"""Searches for worthwhile migrations: for gangs that lack capacity, or else to compact the cluster,
or to rebalance MIG instances. Pure; it works on a copy of the cluster."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kilonova.scheduler.convert.reservations.reserved_gangs import is_reservation_gang
from kilonova.scheduler.core.consolidation.mig_rebalancing import MigPool
from kilonova.scheduler.core.consolidation.migration import MigrationBudget
from kilonova.scheduler.core.consolidation.planner import Consolidation
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scoring.fragmentation import FragmentationModel

_MAX_GANGS_TRIED = 4
"""Pending gangs tried in one search."""


@dataclass(frozen=True, slots=True)
class ConsolidationPlan:
    """The migrations, the gang that they free capacity for, and the node names of the rows."""

    consolidation: Consolidation
    gang: Gang | None
    node_names: Sequence[str]
    pool: MigPool | None = None
    """The pool whose MIG instances are rebalanced; None is consolidation."""


def search_consolidation(
    cluster: Cluster,
    planner: Planner,
    pending: Sequence[Gang],
    budget: MigrationBudget,
    now: float,
    *,
    fragmentation: FragmentationModel | None,
    excluded_gangs: Collection[str],
) -> ConsolidationPlan:
    """The migrations for the first pending gang that they help; without pending gangs, those that
    empty nodes or reduce fragmentation. Reservations and `excluded_gangs` are not migrated."""
    names = cluster.snapshot.names
    excluded_gangs = {*excluded_gangs, *filter(is_reservation_gang, cluster.running_gangs)}
    for gang in pending[:_MAX_GANGS_TRIED]:
        consolidation = planner.consolidate(gang, budget, now, excluded=excluded_gangs)
        if consolidation.migrations:
            return ConsolidationPlan(consolidation, gang, names)
    if pending:
        return ConsolidationPlan(Consolidation(), None, names)
    return ConsolidationPlan(
        planner.consolidate(
            None, budget, now, fragmentation=fragmentation, excluded=excluded_gangs
        ),
        None,
        names,
    )


def search_mig_rebalancing(
    cluster: Cluster,
    planner: Planner,
    pending: Sequence[Gang],
    pools: Iterable[MigPool],
    budget: MigrationBudget,
    now: float,
    *,
    excluded_gangs: Collection[str],
) -> ConsolidationPlan:
    """The migrations among the MIG instances of the first pool where they are worth it: for a
    pending gang, or else for the demand."""
    names = cluster.snapshot.names
    excluded_gangs = {*excluded_gangs, *filter(is_reservation_gang, cluster.running_gangs)}
    waiting = [gang for gang in pending if _requests_whole_or_instances(gang)]
    for pool in pools:
        for gang in (*waiting[:_MAX_GANGS_TRIED], None):
            consolidation = planner.rebalance_mig(gang, pool, budget, now, excluded=excluded_gangs)
            if consolidation.migrations:
                return ConsolidationPlan(consolidation, gang, names, pool)
    return ConsolidationPlan(Consolidation(), None, names)


def order_candidates(gangs: Iterable[Gang]) -> list[Gang]:
    """Gangs for which migrations may free capacity, highest priority first. Gangs with device
    claims are left out: device selectors are evaluated only in the event loop."""
    return sorted(
        (gang for gang in gangs if gang.needed and not _claims_devices(gang)),
        key=lambda gang: (-gang.priority, gang.created, gang.name),
    )


def _claims_devices(gang: Gang) -> bool:
    return any(member.shape.claims for group in gang.groups for member in group.members)


def _requests_whole_or_instances(gang: Gang) -> bool:
    """Whether a gang requests MIG instances, or GPUs that may be divided into some."""
    requests = (member.shape.gpu for group in gang.groups for member in group.members)
    return any(each is not None and (each.profile or each.is_whole) for each in requests)
