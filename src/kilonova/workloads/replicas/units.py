"""Replicas of a scaling group, each of them a unit: how they are. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, ScalingGroupTemplate, names
from kilonova.workloads.conditions import BREACHED, find_condition
from kilonova.workloads.replicas.observed import Observed, is_going
from kilonova.workloads.replicas.tally import Tally, tally
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.room import homeless_from
from kilonova.workloads.sets.desire import is_updating, rolling_update, waits_for_deletion
from kilonova.workloads.shares import surge_of


@dataclass(frozen=True, slots=True)
class Unit:
    """One replica of a scaling group."""

    index: int
    cliques: Mapping[str, PodClique]
    """Those that are there, by full name."""
    is_scheduled: bool
    is_available: bool
    is_broken: bool
    """Whether a clique of it is missing, lacks pods that it needs, or has not said how it is."""
    is_outdated: bool
    """Whether its pods must be replaced."""
    is_updated: bool
    was_up: bool
    """Whether all of it was well at some time."""
    homeless_from: datetime | None = None
    """From when on it counts as one that there is no room for, as things are."""


@dataclass(frozen=True, slots=True)
class Units:
    """All replicas of a scaling group."""

    template: ScalingGroupTemplate
    name: str
    group: PodCliqueScalingGroup | None
    """None if it is not there yet, or is going."""
    asked: int
    """How many replicas people or autoscalers want."""
    units: tuple[Unit, ...]
    """Those that there should be; in an update there may be some more for a while."""
    updated_cliques: int
    """How many cliques are made from the revision, with all of their pods."""

    @property
    def needed(self) -> int:
        """So many there must be: a group may be scaled below what it should always have."""
        return min(self.template.min_available, self.asked)

    @property
    def replicas(self) -> int:
        """How many there should be now."""
        return len(self.units)

    @property
    def available(self) -> int:
        """How many of those asked for do their work."""
        return sum(each.is_available for each in self.units[: self.asked])

    @property
    def nothing_lost(self) -> bool:
        """Whether no fewer do their work than when the last update began."""
        progress = None if self.group is None else self.group.status.update_progress
        before = None if progress is None else progress.available_replicas_at_start
        return before is not None and self.available >= min(before, self.asked)

    @property
    def unbroken(self) -> int:
        """How many are well."""
        return sum(not each.is_broken for each in self.units)


def units_of(seen: Observed, revision: SetRevision) -> list[Units]:
    """The scaling groups of a replica."""
    set_name, result = seen.set_.metadata.name, list[Units]()
    for template in seen.set_.spec.template.pod_clique_scaling_groups:
        name = names.scaling_group(set_name, seen.index, template.name)
        group = seen.groups.get(name)
        if group is not None and is_going(group.metadata):
            group = None
        asked = template.replicas if group is None else group.spec.replicas
        found = [_unit(seen, revision, template, name, each) for each in range(asked)]
        extra = _surge(seen, template, group, asked, [unit for unit, _ in found])
        found += [
            _unit(seen, revision, template, name, each) for each in range(asked, asked + extra)
        ]
        updated = sum(count for _, count in found)
        units = tuple(unit for unit, _ in found)
        result.append(Units(template, name, group, asked, units, updated))
    return result


def is_breached(clique: PodClique) -> bool:
    """Whether a clique says that it lacks pods it needs."""
    found = find_condition(clique.status.conditions, BREACHED)
    return found is not None and found.status == "True"


def must_replace(
    seen: Observed, clique: PodClique, revision: SetRevision, unit: Sequence[str]
) -> bool:
    """Whether a clique's unit differs between the revision that it is at and another.

    It is asked of every clique alone, so that after a crash half-way the rest is done, and
    nothing twice.
    """
    old = clique.metadata.labels.get(names.GENERATION_HASH, "")
    if old == revision.hash:
        return False
    known = seen.revisions.get(old)
    return known is None or any(
        known.hashes.get(name) != revision.hashes.get(name) for name in unit
    )


def _surge(
    seen: Observed,
    template: ScalingGroupTemplate,
    group: PodCliqueScalingGroup | None,
    asked: int,
    units: Sequence[Unit],
) -> int:
    """How many more there are until the update has come through those that are asked for.

    The set's replica may be through before: it needs fewer.
    """
    most = max_surge(template, asked)
    progress = None if group is None else group.status.update_progress
    is_under_way = progress is not None and progress.update_ended_at is None
    if not most or not (is_under_way or is_updating(seen.set_, seen.index)):
        return 0
    if waits_for_deletion(seen.set_) or rolling_update(seen.set_).coherent:
        return 0
    is_over = all(not each.is_outdated and (each.is_available or not each.was_up) for each in units)
    return 0 if is_over else most


def max_surge(template: ScalingGroupTemplate, asked: int) -> int:
    """How many units beyond those asked for an update may have."""
    pace = template.rolling_update
    return surge_of(pace.max_surge if pace else None, asked)


def _unit(
    seen: Observed,
    revision: SetRevision,
    template: ScalingGroupTemplate,
    group_name: str,
    index: int,
) -> tuple[Unit, int]:
    cliques: dict[str, PodClique] = {}
    tallies: list[Tally] = []
    outdated, updated = False, 0
    for each in template.clique_names:
        name = names.member_clique(group_name, index, each)
        clique = seen.cliques.get(name)
        if clique is None or is_going(clique.metadata):
            continue
        cliques[name] = clique
        counted = tally(clique, seen.roster(name))
        tallies.append(counted)
        outdated |= must_replace(seen, clique, revision, template.clique_names)
        outdated |= counted.outdated > 0
        at_revision = clique.metadata.labels.get(names.GENERATION_HASH) == revision.hash
        updated += at_revision and counted.is_updated
    whole = len(cliques) == len(template.clique_names)
    unit = Unit(
        index=index,
        cliques=cliques,
        is_scheduled=whole and all(each.is_scheduled for each in tallies),
        is_available=whole and all(each.is_available for each in tallies),
        is_broken=not whole or any(map(_is_doubtful, cliques.values())),
        is_outdated=outdated,
        is_updated=whole and updated == len(template.clique_names),
        was_up=whole and all(map(_was_up, cliques.values())),
        homeless_from=_homeless_from(seen, cliques),
    )
    return unit, updated


def _was_up(clique: PodClique) -> bool:
    """Whether it had what it needs; what is scaled to nothing has."""
    return clique.status.healthy_incarnation is not None or not clique.spec.replicas


def _homeless_from(seen: Observed, cliques: Iterable[str]) -> datetime | None:
    rosters = [seen.roster(each) for each in cliques]
    if any(each.leaves_room for each in rosters):
        return None
    times = (homeless_from(pod) for each in rosters for pod in each.members)
    return min((each for each in times if each is not None), default=None)


def _is_doubtful(clique: PodClique) -> bool:
    return find_condition(clique.status.conditions, BREACHED) is None or is_breached(clique)
