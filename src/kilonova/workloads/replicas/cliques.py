"""Which cliques a replica should have, at which revision, and which start anew. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.grove import PodClique, names
from kilonova.api.json import JsonObject
from kilonova.workloads.cliques.roster import Roster
from kilonova.workloads.keys import incarnation_of
from kilonova.workloads.replicas.observed import Observed, is_going
from kilonova.workloads.replicas.plan import Create, Plan
from kilonova.workloads.replicas.references import pods_to_come
from kilonova.workloads.replicas.tally import tally
from kilonova.workloads.replicas.termination import broken_since
from kilonova.workloads.replicas.units import Unit, Units, max_surge, must_replace
from kilonova.workloads.replicas.updates import units_to_update
from kilonova.workloads.resources import CLIQUES, GROUPS, SETS
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.sets.desire import is_updating, rolling_update, waits_for_deletion
from kilonova.workloads.settings import Settings
from kilonova.workloads.shares import count_of
from kilonova.workloads.templates.cliques import clique_object
from kilonova.workloads.templates.labels import owner_reference
from kilonova.workloads.templates.lookup import (
    Member,
    cliques_alone,
    find_clique,
    full_name,
    gang_name,
)


@dataclass(frozen=True, slots=True)
class WantedClique:
    """A clique that should be there."""

    clique: str
    """Its name in the set."""
    member: Member | None
    unit: Unit | None
    """The replica of its group, if it is in one."""
    name: str
    gang: str
    live: PodClique | None
    """None if it is not there, or is going."""
    roster: Roster
    pods: int
    """How many it will have."""
    min_replicas: int
    """So many start together with the gang."""

    @property
    def replaced_together(self) -> tuple[str, ...]:
        """The cliques that are replaced when this one is."""
        return (self.clique,) if self.member is None else self.member.group.clique_names


def wanted_cliques(seen: Observed, groups: Sequence[Units]) -> list[WantedClique]:
    """All cliques of a replica: those that stand alone, and those of every unit."""
    result = [_wanted(seen, name, None, None) for name in cliques_alone(seen.set_.spec.template)]
    for group in groups:
        for unit in group.units:
            member = Member(group.template, group.name, unit.index)
            result += [_wanted(seen, each, member, unit) for each in group.template.clique_names]
    return result


def settle_cliques(
    plan: Plan,
    seen: Observed,
    revision: SetRevision,
    groups: Sequence[Units],
    wanted: Sequence[WantedClique],
    anew: frozenset[str],
    settings: Settings,
) -> None:
    """Bring the cliques to a revision, each when it is its turn; `anew` are started anew."""
    turns = {each.name: _turns(seen, each) for each in groups}
    for each in wanted:
        owner = _owner(seen, each)
        if owner is None:
            continue
        if each.live is None:
            if each.name not in seen.cliques and _has_gang(seen, each):
                body = _object(seen, each, revision, owner, settings)
                _count(body, max(map(_incarnation, _together(each)), default=0))
                plan.creates.append(Create(CLIQUES, body))
            continue
        is_due = _is_due(each, turns)
        at = revision if is_due else _revision_of(seen, each.live)
        if at is None or not plan.may_patch(each.live.metadata):
            continue
        body = _object(seen, each, at, owner, settings)
        _take_back(seen, each.live, each.clique, body)
        if each.name in anew:
            _count(body, _incarnation(each.live) + 1)
        elif is_due:
            _count(body, _updated_incarnation(seen, each, each.live, revision))
        # As long as one is broken, what was begun is done again after a crash half-way.
        broken = broken_since(each.live) if each.name in anew else None
        plan.change_clique(each.live, body, broken=broken)
    plan.remove(CLIQUES, seen.cliques, {each.name for each in wanted})


def _wanted(seen: Observed, clique: str, member: Member | None, unit: Unit | None) -> WantedClique:
    set_name = seen.set_.metadata.name
    name = full_name(set_name, seen.index, clique, member)
    live = seen.cliques.get(name)
    if live is not None and is_going(live.metadata):
        live = None
    spec = find_clique(seen.set_.spec.template, clique).spec if live is None else live.spec
    minimum = spec.replicas if spec.min_available is None else spec.min_available
    return WantedClique(
        clique=clique,
        member=member,
        unit=unit,
        name=name,
        gang=gang_name(set_name, seen.index, member),
        live=live,
        roster=seen.roster(name),
        pods=spec.replicas if live is None else pods_to_come(live),
        min_replicas=min(minimum, spec.replicas),
    )


def _object(
    seen: Observed,
    wanted: WantedClique,
    revision: SetRevision,
    owner: JsonObject,
    settings: Settings,
) -> JsonObject:
    return clique_object(
        seen.set_, seen.index, revision, wanted.clique, wanted.member, settings, owner=owner
    )


def _owner(seen: Observed, wanted: WantedClique) -> JsonObject | None:
    """The set or the group; None if the group is not there."""
    if wanted.member is None:
        return owner_reference(SETS, seen.set_.metadata)
    group = seen.groups.get(wanted.member.group_name)
    if group is None or is_going(group.metadata):
        return None
    return owner_reference(GROUPS, group.metadata)


def _is_due(wanted: WantedClique, turns: Mapping[str, frozenset[int]]) -> bool:
    """Whether a clique may be brought to the revision now."""
    if wanted.member is None or wanted.unit is None or not wanted.unit.is_outdated:
        return True
    return wanted.unit.index in turns[wanted.member.group_name]


def _has_gang(seen: Observed, wanted: WantedClique) -> bool:
    gang = seen.gangs.get(wanted.gang)
    return gang is not None and not is_going(gang.metadata)


def _turns(seen: Observed, group: Units) -> frozenset[int]:
    """Which units of a group may be replaced now."""
    if waits_for_deletion(seen.set_) or rolling_update(seen.set_).coherent:
        return frozenset(range(group.replicas))
    pace = group.template.rolling_update
    share = count_of(pace.max_unavailable if pace else None, group.asked, 1)
    least = 0 if max_surge(group.template, group.asked) else 1
    return units_to_update(
        group.units,
        replicas=group.asked,
        needed=group.needed,
        max_unavailable=max(share, least),
        homeless=_homeless(group, seen.now),
    )


def _homeless(group: Units, now: datetime | None) -> frozenset[int]:
    """Units that there is no room for; not those that the update itself has cost their nodes."""
    if now is None or not group.nothing_lost:
        return frozenset()
    return frozenset(
        each.index for each in group.units if each.homeless_from and each.homeless_from <= now
    )


def _updated_incarnation(
    seen: Observed, wanted: WantedClique, live: PodClique, revision: SetRevision
) -> int:
    """The next one, if all pods of a clique are replaced at once by its update."""
    own = _incarnation(live)
    if waits_for_deletion(seen.set_):
        return own
    if wanted.member is None and not rolling_update(seen.set_).coherent:
        return own
    if must_replace(seen, live, revision, wanted.replaced_together):
        return own + 1
    if not is_updating(seen.set_, seen.index):
        return own
    # Pods were left outdated while the set waited for their deletion; it does no longer. All of a
    # unit come to the same number, so that after a crash half-way the rest does too, and once.
    return max(
        _incarnation(each) + (tally(each, seen.roster(each.metadata.name)).outdated > 0)
        for each in _together(wanted) or (live,)
    )


def _together(wanted: WantedClique) -> tuple[PodClique, ...]:
    """The cliques of a clique's unit that are there."""
    return () if wanted.unit is None else tuple(wanted.unit.cliques.values())


def _incarnation(clique: PodClique) -> int:
    return incarnation_of(clique.metadata)


def _count(body: JsonObject, incarnation: int) -> None:
    if incarnation:
        annotations = body["metadata"].setdefault("annotations", {})
        annotations[names.INCARNATION] = str(incarnation)


def _revision_of(seen: Observed, clique: PodClique) -> SetRevision | None:
    return seen.revisions.get(clique.metadata.labels.get(names.GENERATION_HASH, ""))


def _take_back(seen: Observed, live: PodClique, clique: str, body: JsonObject) -> None:
    """Ask for the absence of labels and annotations that an older revision had.

    The count of incarnations is never a template's, whatever that says.
    """
    old = _revision_of(seen, live)
    parts = None if old is None else old.templates.get(clique)
    if parts is None:
        return
    metadata = body["metadata"]
    for field, had in (("labels", parts.labels), ("annotations", parts.annotations)):
        gone = had.keys() - metadata.get(field, {}).keys() - {names.INCARNATION}
        if gone:
            metadata.setdefault(field, {}).update(dict.fromkeys(gone))
