"""The domain in which a gang part lacks least, and how many pods of each group it lacks."""

from dataclasses import dataclass

import numpy as np

from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.filters.feasibility import Counts
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.label_columns import Flags, Rows
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.topology.domains import anchor_domains
from kilonova.scheduler.core.topology.gang_tree import GangPart, build_gang_tree


@dataclass(frozen=True, slots=True)
class GroupDemand:
    """Pods of one shape of a group, and how many of them fit by themselves."""

    group: str
    shape: Shape
    requested: int
    available: int

    @property
    def missing(self) -> int:
        return max(0, self.requested - self.available)


@dataclass(frozen=True, slots=True)
class CandidateDomain:
    """Nodes of one domain, or all nodes where no level is required."""

    level: str
    domain: str
    rows: Rows
    demands: tuple[GroupDemand, ...]
    has_placed_pods: bool = False
    """Pods of the part are already placed there."""

    @property
    def missing(self) -> int:
        return sum(demand.missing for demand in self.demands)

    @property
    def largest_shortfall(self) -> GroupDemand:
        """The demand with most pods missing."""
        return max(self.demands, key=lambda demand: (demand.missing, demand.requested))


def measure_all_nodes(trial: TrialCluster, part: GangPart) -> CandidateDomain:
    """What a part lacks on all nodes together."""
    rows = trial.live_rows()
    demands = [
        GroupDemand(
            group, shape, requested, int(trial.feasibility.free_capacity(shape)[rows].sum())
        )
        for group, shape, requested in _list_requested(part)
    ]
    return CandidateDomain("", "", rows, tuple(demands))


def find_nearest_domain(trial: TrialCluster, part: GangPart, level: str) -> CandidateDomain | None:
    """The domain of a level in which a part lacks least; None if no domain is possible."""
    return next(iter(_find_nearest_domains(trial, part, level, 1)), None)


def _find_nearest_domains(
    trial: TrialCluster, part: GangPart, level: str, max_count: int
) -> list[CandidateDomain]:
    """The domains of a level in which a part lacks least."""
    snapshot = trial.snapshot
    rows = trial.live_rows()
    domains = snapshot.labels.domains(level, rows)
    inside = domains >= 0
    anchors = anchor_domains(snapshot, part, level)
    if anchors is not None:
        inside &= np.isin(domains, anchors) if len(anchors) == 1 else False
    rows, domains = rows[inside], domains[inside]
    if not len(rows):
        return []
    names = snapshot.labels.column(level).values
    there: Flags = np.bincount(domains, minlength=len(names)) > 0
    missing: Counts = np.zeros(len(names), np.int64)
    totals: list[Counts] = []
    for _, shape, requested in _list_requested(part):
        capacity = trial.feasibility.free_capacity(shape)[rows]
        total = np.bincount(domains, weights=capacity, minlength=len(names)).astype(np.int64)
        missing += np.maximum(0, requested - total)
        totals.append(total)
    order = sorted(np.flatnonzero(there).tolist(), key=lambda one: (int(missing[one]), names[one]))
    return [
        CandidateDomain(
            level,
            names[domain],
            rows[domains == domain],
            tuple(
                GroupDemand(group, shape, requested, int(total[domain]))
                for (group, shape, requested), total in zip(
                    _list_requested(part), totals, strict=True
                )
            ),
            anchors is not None,
        )
        for domain in order[:max_count]
    ]


def find_gang_domain(trial: TrialCluster, gang: Gang) -> CandidateDomain | None:
    """Where a gang as a whole lacks least: in a domain of the level that it, or its only group,
    requires, else on all nodes."""
    return next(iter(find_gang_domains(trial, gang, 1)), None)


def find_gang_domains(trial: TrialCluster, gang: Gang, max_count: int) -> list[CandidateDomain]:
    """The domains in which a gang as a whole lacks least."""
    root = build_gang_tree(gang)
    part = root if root.pack.required or len(root.children) != 1 else root.children[0]
    level = part.pack.required
    return (
        _find_nearest_domains(trial, part, level, max_count)
        if level
        else [measure_all_nodes(trial, root)]
    )


def _list_requested(part: GangPart) -> list[tuple[str, Shape, int]]:
    return [
        (leaf.group.name, shape, requested)
        for leaf in part.leaves()
        if leaf.group is not None
        for shape, requested in leaf.required_shapes
    ]
