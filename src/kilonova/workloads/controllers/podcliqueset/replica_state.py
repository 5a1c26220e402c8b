"""The state of each replica of a set, computed from its pods. Pure.

Pods are counted here instead of reading the statuses of cliques: what is updated and what is
available must be from the same moment. A status that still counts deleted pods would let the next
replica be taken down.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, names
from kilonova.api.grove.podclique import PodCliqueUpdateProgress
from kilonova.api.grove.podcliqueset import Template
from kilonova.api.meta import Condition
from kilonova.api.times import parse_time
from kilonova.kube.status import is_condition_true
from kilonova.workloads.builders.template_lookup import list_standalone_cliques
from kilonova.workloads.controllers.podclique.completion import COMPLETE_CONDITION, FAILED_CONDITION
from kilonova.workloads.controllers.podclique.updates import count_selected_pods
from kilonova.workloads.keys import get_incarnation, get_label_index
from kilonova.workloads.pods.schedulability import compute_unplaced_from, is_releasing_capacity
from kilonova.workloads.pods.state import is_finished, is_ready, is_scheduled, is_terminating
from kilonova.workloads.resources import Pod
from kilonova.workloads.status.condition_types import MIN_AVAILABLE_BREACHED


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """The state of a replica."""

    index: int
    present: bool = False
    """Whether any object of it exists."""
    available: bool = False
    """Whether all of its cliques and scaling groups have minAvailable."""
    was_available: bool = False
    """Whether it has ever been available."""
    updated: bool = False
    """Whether all of it is made from the newest revision."""
    has_lost_pods: bool = False
    """Whether an update took more pods than are ready again, even beyond minAvailable."""
    outdated: bool = False
    """Whether some of it is made from an older revision; missing objects do not count."""
    scheduled: bool = False
    """Whether any of its pods has a node."""
    unplaced_from: datetime | None = None
    """From when on it counts as unplaced."""
    breached: bool = False
    """Whether a clique or scaling group of it reports MinAvailableBreached."""
    complete: bool = False
    """Whether all of its cliques are complete."""
    failed: bool = False
    """Whether a clique of it has failed."""
    updated_cliques: int = 0
    """Standalone cliques that are updated."""
    updated_groups: int = 0


ListPods = Callable[[PodClique], Sequence[Pod]]


def compute_replica_states(
    set_: PodCliqueSet,
    hash_: str,
    cliques: Iterable[PodClique],
    groups: Iterable[PodCliqueScalingGroup],
    list_pods: ListPods,
) -> dict[int, ReplicaState]:
    """The state of every replica with objects that are not being deleted.

    `hash_` is the hash of the newest revision. Reads every pod of the set.
    """
    cliques_of: defaultdict[int, list[_CliqueState]] = defaultdict(list)
    groups_of: defaultdict[int, list[PodCliqueScalingGroup]] = defaultdict(list)
    progress = set_.status.update_progress
    since = progress.update_started_at if progress else None
    for clique in cliques:
        index = get_label_index(clique.metadata, names.SET_REPLICA_INDEX)
        if index is not None and clique.metadata.deletion_timestamp is None:
            cliques_of[index].append(_compute_clique_state(clique, hash_, list_pods(clique), since))
    for group in groups:
        index = get_label_index(group.metadata, names.SET_REPLICA_INDEX)
        if index is not None and group.metadata.deletion_timestamp is None:
            groups_of[index].append(group)
    layout = _ReplicaLayout.from_template(set_.spec.template)
    set_name = set_.metadata.name
    return {
        index: _compute_replica_state(
            layout, set_name, index, hash_, cliques_of.get(index, []), groups_of.get(index, [])
        )
        for index in sorted(cliques_of.keys() | groups_of.keys())
    }


@dataclass(frozen=True, slots=True)
class _ReplicaLayout:
    """The cliques and scaling groups of every replica."""

    standalone_cliques: tuple[str, ...]
    groups: Mapping[str, int]
    """The number of cliques in each replica of a scaling group."""

    @classmethod
    def from_template(cls, template: Template) -> "_ReplicaLayout":
        groups = template.pod_clique_scaling_groups
        return cls(
            list_standalone_cliques(template),
            {each.name: len(each.clique_names) for each in groups},
        )


@dataclass(frozen=True, slots=True)
class _CliqueState:
    name: str
    group: str
    group_index: int
    available: bool
    updated: bool
    has_lost_pods: bool
    was_available: bool
    scheduled: bool
    placed: bool
    """Whether minAvailable pods have nodes or have succeeded."""
    unplaced_from: datetime | None
    """Of its required pods."""
    is_releasing_capacity: bool
    conditions: tuple[Condition, ...]


def _compute_clique_state(
    clique: PodClique, hash_: str, pods: Sequence[Pod], since: str | None
) -> _CliqueState:
    labels = clique.metadata.labels
    template_hash = labels.get(names.POD_TEMPLATE_HASH)
    incarnation = get_incarnation(clique.metadata)
    required = min(clique.min_available, clique.spec.replicas)
    complete = is_condition_true(clique.status.conditions, COMPLETE_CONDITION)
    ready, succeeded, scheduled, outdated, releasing = 0, 0, 0, False, False
    unplaced_times: list[datetime] = []
    for pod in pods:
        releasing = releasing or is_releasing_capacity(pod)
        if is_terminating(pod):
            continue
        is_current = get_incarnation(pod.metadata) == incarnation
        if is_finished(pod):
            succeeded += is_current and pod.status.phase == "Succeeded"
            continue
        # Pods of an earlier incarnation are about to be deleted; until then they still run.
        outdated = outdated or pod.metadata.labels.get(names.POD_TEMPLATE_HASH) != template_hash
        if not is_current:
            continue
        ready += is_ready(pod)
        scheduled += is_scheduled(pod)
        if not pod.spec.node_name and (time := compute_unplaced_from(pod)) is not None:
            unplaced_times.append(time)
    ready += succeeded
    placed = complete or scheduled + succeeded >= required
    return _CliqueState(
        name=clique.metadata.name,
        group=labels.get(names.SCALING_GROUP, ""),
        group_index=get_label_index(clique.metadata, names.SCALING_GROUP_REPLICA_INDEX) or 0,
        available=complete or ready >= required,
        updated=not outdated and labels.get(names.GENERATION_HASH) == hash_,
        has_lost_pods=not complete
        and ready < min(_count_replaced_pods(clique, since), clique.spec.replicas),
        # A clique that is scaled to 0 has all required pods.
        was_available=clique.status.healthy_incarnation is not None or not clique.spec.replicas,
        scheduled=scheduled > 0,
        placed=placed,
        unplaced_from=None if placed else min(unplaced_times, default=None),
        is_releasing_capacity=releasing,
        conditions=clique.status.conditions,
    )


def _count_replaced_pods(clique: PodClique, since: str | None) -> int:
    """How many ready pods of a clique its update has taken.

    An update that has ended, and had started before the set's update, does not count.
    """
    progress = clique.status.update_progress
    return (
        0
        if progress is None or _is_older_update(progress, since)
        else count_selected_pods(progress)
    )


def _is_older_update(progress: PodCliqueUpdateProgress, since: str | None) -> bool:
    started = progress.update_started_at
    if progress.update_ended_at is None or started is None or since is None:
        return False
    return parse_time(started) < parse_time(since)


def _compute_replica_state(
    layout: _ReplicaLayout,
    set_name: str,
    index: int,
    hash_: str,
    cliques: Sequence[_CliqueState],
    groups: Sequence[PodCliqueScalingGroup],
) -> ReplicaState:
    standalone = {each.name: each for each in cliques if not each.group}
    members: defaultdict[str, list[_CliqueState]] = defaultdict(list)
    for each in cliques:
        if each.group:
            members[each.group].append(each)
    expected = [
        standalone.get(names.clique(set_name, index, name)) for name in layout.standalone_cliques
    ]
    live_groups = {each.metadata.name: each for each in groups}
    group_states = [
        _compute_group_state(live_groups.get(name), hash_, members.get(name, []), size)
        for name, size in (
            (names.scaling_group(set_name, index, short), size)
            for short, size in layout.groups.items()
        )
    ]
    updated_cliques = sum(each is not None and each.updated for each in expected)
    updated_groups = sum(each.updated for each in group_states)
    whole = all(each is not None for each in expected) and all(
        each.is_whole for each in group_states
    )
    conditions = [each.conditions for each in cliques]
    return ReplicaState(
        index=index,
        present=True,
        available=all(each is not None and each.available for each in expected)
        and all(each.available for each in group_states),
        was_available=all(each is not None and each.was_available for each in expected)
        and all(each.was_available for each in group_states),
        updated=updated_cliques == len(expected) and updated_groups == len(group_states),
        has_lost_pods=any(each is not None and each.has_lost_pods for each in expected)
        or any(each.has_lost_replicas for each in group_states),
        outdated=any(not each.updated for each in cliques)
        or any(each.metadata.labels.get(names.GENERATION_HASH) != hash_ for each in groups),
        scheduled=any(each.scheduled for each in cliques),
        unplaced_from=None
        if any(each.is_releasing_capacity for each in cliques)
        else min(
            (
                each.unplaced_from
                for each in (*expected, *group_states)
                if each is not None and each.unplaced_from is not None
            ),
            default=None,
        ),
        breached=any(
            is_condition_true(each, MIN_AVAILABLE_BREACHED)
            for each in (*conditions, *(group.status.conditions for group in groups))
        ),
        complete=whole
        and bool(cliques)
        and all(is_condition_true(each, COMPLETE_CONDITION) for each in conditions),
        failed=any(is_condition_true(each, FAILED_CONDITION) for each in conditions),
        updated_cliques=updated_cliques,
        updated_groups=updated_groups,
    )


@dataclass(frozen=True, slots=True)
class _GroupState:
    is_whole: bool = False
    available: bool = False
    was_available: bool = False
    updated: bool = False
    has_lost_replicas: bool = False
    unplaced_from: datetime | None = None


def _compute_group_state(
    group: PodCliqueScalingGroup | None, hash_: str, members: Sequence[_CliqueState], size: int
) -> _GroupState:
    if group is None:
        return _GroupState()
    replicas: defaultdict[int, list[_CliqueState]] = defaultdict(list)
    for each in members:
        if each.group_index < group.spec.replicas:
            replicas[each.group_index].append(each)
    whole = [each for each in replicas.values() if len(each) == size]
    available = sum(all(each.available for each in replica) for replica in whole)
    placed = sum(all(each.placed for each in replica) for replica in whole)
    were_available = sum(all(each.was_available for each in replica) for replica in whole)
    required = min(group.spec.min_available, group.spec.replicas)
    is_whole = len(whole) == group.spec.replicas
    return _GroupState(
        is_whole=is_whole,
        available=available >= required,
        was_available=were_available >= required,
        updated=is_whole
        and group.metadata.labels.get(names.GENERATION_HASH) == hash_
        and all(each.updated for each in members),
        has_lost_replicas=_has_lost_replicas(group, hash_, available, list(replicas.values())),
        unplaced_from=min(
            (each.unplaced_from for each in members if each.unplaced_from and placed < required),
            default=None,
        ),
    )


def _has_lost_replicas(
    group: PodCliqueScalingGroup,
    hash_: str,
    available: int,
    replicas: Sequence[Sequence[_CliqueState]],
) -> bool:
    """Whether a scaling group has fewer available replicas than before the update.

    Until its status has recorded that number, group replicas that have ever been available count.
    """
    progress = group.status.update_progress
    if progress is not None and progress.pod_clique_set_generation_hash == hash_:
        before = progress.available_replicas_at_start
        if before is not None:
            return available < min(before, group.spec.replicas)
    return any(
        all(each.was_available for each in members) and not all(each.available for each in members)
        for members in replicas
    )
