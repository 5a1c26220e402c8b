"""The state of scaling groups and their group replicas. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, ScalingGroupTemplate, names
from kilonova.api.int_or_percent import resolve_max_surge
from kilonova.kube.status import find_condition
from kilonova.workloads.controllers.podcliqueset_replica.observed import (
    ObservedReplica,
    is_being_deleted,
)
from kilonova.workloads.pods.counts import CliquePodCounts, count_pods
from kilonova.workloads.pods.schedulability import compute_unplaced_from
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.status.condition_types import MIN_AVAILABLE_BREACHED
from kilonova.workloads.update_strategy import get_rolling_update, is_on_delete, is_replica_updating


@dataclass(frozen=True, slots=True)
class GroupReplica:
    """One replica of a scaling group."""

    index: int
    cliques: Mapping[str, PodClique]
    """Its existing cliques, by full name."""
    is_scheduled: bool
    is_available: bool
    is_breached: bool
    """Whether a clique of it is missing, breached, or has not reported its state."""
    is_outdated: bool
    """Whether its pods must be replaced."""
    is_updated: bool
    was_available: bool
    """Whether all of its cliques have been available at some time."""
    unplaced_from: datetime | None = None
    """From when on it counts as unplaced."""


@dataclass(frozen=True, slots=True)
class ScalingGroupState:
    """A scaling group and its replicas."""

    template: ScalingGroupTemplate
    name: str
    group: PodCliqueScalingGroup | None
    """None if it does not exist yet or is being deleted."""
    requested_replicas: int
    """The replicas that users or autoscalers request."""
    group_replicas: tuple[GroupReplica, ...]
    """The desired group replicas; during an update including surge replicas."""
    updated_cliques: int
    """How many cliques, with all of their pods, are made from the revision."""

    @property
    def required_replicas(self) -> int:
        """How many replicas are required: a group may be scaled below minAvailable."""
        return min(self.template.min_available, self.requested_replicas)

    @property
    def replica_count(self) -> int:
        """How many replicas there should be now."""
        return len(self.group_replicas)

    @property
    def available_replicas(self) -> int:
        """How many of the requested replicas are available."""
        return sum(each.is_available for each in self.group_replicas[: self.requested_replicas])

    @property
    def is_availability_restored(self) -> bool:
        """Whether as many replicas are available as when the last update started."""
        progress = None if self.group is None else self.group.status.update_progress
        before = None if progress is None else progress.available_replicas_at_start
        return before is not None and self.available_replicas >= min(
            before, self.requested_replicas
        )

    @property
    def healthy_replicas(self) -> int:
        """How many replicas are not breached."""
        return sum(not each.is_breached for each in self.group_replicas)


def compute_group_states(
    observed: ObservedReplica, revision: SetRevision
) -> list[ScalingGroupState]:
    """The scaling groups of a replica."""
    set_name, result = observed.set_.metadata.name, list[ScalingGroupState]()
    for template in observed.set_.spec.template.pod_clique_scaling_groups:
        name = names.scaling_group(set_name, observed.index, template.name)
        group = observed.groups.get(name)
        if group is not None and is_being_deleted(group.metadata):
            group = None
        requested = template.replicas if group is None else group.spec.replicas
        found = [
            _compute_group_replica(observed, revision, template, name, each)
            for each in range(requested)
        ]
        extra = _count_surge_replicas(
            observed, template, group, requested, [group_replica for group_replica, _ in found]
        )
        found += [
            _compute_group_replica(observed, revision, template, name, each)
            for each in range(requested, requested + extra)
        ]
        updated = sum(count for _, count in found)
        group_replicas = tuple(group_replica for group_replica, _ in found)
        result.append(ScalingGroupState(template, name, group, requested, group_replicas, updated))
    return result


def is_clique_breached(clique: PodClique) -> bool:
    """Whether a clique reports MinAvailableBreached."""
    found = find_condition(clique.status.conditions, MIN_AVAILABLE_BREACHED)
    return found is not None and found.status == "True"


def must_replace_pods(
    observed: ObservedReplica, clique: PodClique, revision: SetRevision, clique_names: Sequence[str]
) -> bool:
    """Whether a clique's group replica differs between its present revision and another.

    Evaluated for every clique alone, so that after a crash the others are completed, and none is
    replaced twice.
    """
    old = clique.metadata.labels.get(names.GENERATION_HASH, "")
    if old == revision.hash:
        return False
    known = observed.revisions.get(old)
    return known is None or any(
        known.hashes.get(name) != revision.hashes.get(name) for name in clique_names
    )


def _count_surge_replicas(
    observed: ObservedReplica,
    template: ScalingGroupTemplate,
    group: PodCliqueScalingGroup | None,
    requested_replicas: int,
    group_replicas: Sequence[GroupReplica],
) -> int:
    """How many surge replicas there are until all requested replicas are updated.

    The update of the set's replica may end before, because it needs fewer of them.
    """
    max_surge = get_max_surge(template, requested_replicas)
    progress = None if group is None else group.status.update_progress
    is_updating = progress is not None and progress.update_ended_at is None
    if not max_surge or not (is_updating or is_replica_updating(observed.set_, observed.index)):
        return 0
    if is_on_delete(observed.set_) or get_rolling_update(observed.set_).coherent:
        return 0
    is_done = all(
        not each.is_outdated and (each.is_available or not each.was_available)
        for each in group_replicas
    )
    return 0 if is_done else max_surge


def get_max_surge(template: ScalingGroupTemplate, requested_replicas: int) -> int:
    """How many surge replicas an update may have."""
    rolling_update = template.rolling_update
    return resolve_max_surge(
        rolling_update.max_surge if rolling_update else None, requested_replicas
    )


def _compute_group_replica(
    observed: ObservedReplica,
    revision: SetRevision,
    template: ScalingGroupTemplate,
    group_name: str,
    index: int,
) -> tuple[GroupReplica, int]:
    cliques: dict[str, PodClique] = {}
    counts: list[CliquePodCounts] = []
    outdated, updated = False, 0
    for each in template.clique_names:
        name = names.member_clique(group_name, index, each)
        clique = observed.cliques.get(name)
        if clique is None or is_being_deleted(clique.metadata):
            continue
        cliques[name] = clique
        pod_counts = count_pods(clique, observed.get_classified_pods(name))
        counts.append(pod_counts)
        outdated |= must_replace_pods(observed, clique, revision, template.clique_names)
        outdated |= pod_counts.outdated > 0
        at_revision = clique.metadata.labels.get(names.GENERATION_HASH) == revision.hash
        updated += at_revision and pod_counts.is_updated
    is_complete = len(cliques) == len(template.clique_names)
    group_replica = GroupReplica(
        index=index,
        cliques=cliques,
        is_scheduled=is_complete and all(each.is_scheduled for each in counts),
        is_available=is_complete and all(each.is_available for each in counts),
        is_breached=not is_complete or any(map(_is_breached_or_unknown, cliques.values())),
        is_outdated=outdated,
        is_updated=is_complete and updated == len(template.clique_names),
        was_available=is_complete and all(map(_was_available, cliques.values())),
        unplaced_from=_compute_unplaced_from(observed, cliques),
    )
    return group_replica, updated


def _was_available(clique: PodClique) -> bool:
    """Whether it has been available; a clique scaled to 0 always is."""
    return clique.status.healthy_incarnation is not None or not clique.spec.replicas


def _compute_unplaced_from(observed: ObservedReplica, cliques: Iterable[str]) -> datetime | None:
    classified = [observed.get_classified_pods(each) for each in cliques]
    if any(each.is_releasing_capacity for each in classified):
        return None
    times = (compute_unplaced_from(pod) for each in classified for pod in each.members)
    return min((each for each in times if each is not None), default=None)


def _is_breached_or_unknown(clique: PodClique) -> bool:
    return find_condition(
        clique.status.conditions, MIN_AVAILABLE_BREACHED
    ) is None or is_clique_breached(clique)
