"""Searches for worthwhile migrations: for gangs that lack capacity, or else to compact the cluster.
Pure; it works on a copy of the cluster."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kilonova.scheduler.convert.reservations.reserved_gangs import is_reservation_gang
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


def order_candidates(gangs: Iterable[Gang]) -> list[Gang]:
    """Gangs for which migrations may free capacity, highest priority first. Gangs with device
    claims are left out: device selectors are evaluated only in the event loop."""
    return sorted(
        (gang for gang in gangs if gang.needed and not _claims_devices(gang)),
        key=lambda gang: (-gang.priority, gang.created, gang.name),
    )


def _claims_devices(gang: Gang) -> bool:
    return any(member.shape.claims for group in gang.groups for member in group.members)
