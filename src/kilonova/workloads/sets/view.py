"""How each replica of a set is, as its pods show it. Pure.

Pods are counted here and not taken from the statuses of cliques: what is updated and what is
available must be of one moment. A status that still tells of pods that have just been deleted
would let the next replica go down with them.
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
from kilonova.workloads.cliques.completion import COMPLETE, FAILED
from kilonova.workloads.cliques.updates import taken_by
from kilonova.workloads.conditions import BREACHED, holds
from kilonova.workloads.keys import incarnation_of, index_of
from kilonova.workloads.pods import is_ending, is_finished, is_ready, is_scheduled
from kilonova.workloads.resources import Pod
from kilonova.workloads.room import homeless_from, leaves_room
from kilonova.workloads.templates.lookup import cliques_alone


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """How a replica is."""

    index: int
    present: bool = False
    """Whether anything of it is there."""
    available: bool = False
    """Whether all of its cliques and groups have what they must have."""
    was_up: bool = False
    """Whether it ever had the nodes that it must have."""
    updated: bool = False
    """Whether all of it is made from the newest revision."""
    lacking: bool = False
    """Whether an update took more than is ready again, be it beyond what it must have."""
    outdated: bool = False
    """Whether some of it is made from an older revision; what is not there yet is neither."""
    scheduled: bool = False
    """Whether any pod of it has a node."""
    homeless_from: datetime | None = None
    """From when on it counts as one that there is no room for, as things are."""
    breached: bool = False
    """Whether a clique or group of it has said that it lacks pods."""
    complete: bool = False
    """Whether all of its cliques have done their work."""
    failed: bool = False
    """Whether a clique of it has failed for good."""
    updated_cliques: int = 0
    """Cliques outside of groups that are updated."""
    updated_groups: int = 0


PodsOf = Callable[[PodClique], Sequence[Pod]]


def view_replicas(
    set_: PodCliqueSet,
    hash_: str,
    cliques: Iterable[PodClique],
    groups: Iterable[PodCliqueScalingGroup],
    pods_of: PodsOf,
) -> dict[int, ReplicaView]:
    """Every replica of which anything is there that is not going; `hash_` is the newest revision's.

    Costs a look at every pod of the set.
    """
    cliques_of: defaultdict[int, list[_CliqueView]] = defaultdict(list)
    groups_of: defaultdict[int, list[PodCliqueScalingGroup]] = defaultdict(list)
    progress = set_.status.update_progress
    since = progress.update_started_at if progress else None
    for clique in cliques:
        index = index_of(clique.metadata, names.SET_REPLICA_INDEX)
        if index is not None and clique.metadata.deletion_timestamp is None:
            cliques_of[index].append(_view_clique(clique, hash_, pods_of(clique), since))
    for group in groups:
        index = index_of(group.metadata, names.SET_REPLICA_INDEX)
        if index is not None and group.metadata.deletion_timestamp is None:
            groups_of[index].append(group)
    shape = _Shape.of(set_.spec.template)
    set_name = set_.metadata.name
    return {
        index: _view_replica(
            shape, set_name, index, hash_, cliques_of.get(index, []), groups_of.get(index, [])
        )
        for index in sorted(cliques_of.keys() | groups_of.keys())
    }


@dataclass(frozen=True, slots=True)
class _Shape:
    """What every replica consists of."""

    alone: tuple[str, ...]
    groups: Mapping[str, int]
    """How many cliques each replica of a group has."""

    @classmethod
    def of(cls, template: Template) -> "_Shape":
        groups = template.pod_clique_scaling_groups
        return cls(cliques_alone(template), {each.name: len(each.clique_names) for each in groups})


@dataclass(frozen=True, slots=True)
class _CliqueView:
    name: str
    group: str
    group_index: int
    available: bool
    updated: bool
    lacking: bool
    was_up: bool
    scheduled: bool
    placed: bool
    """Whether as many pods as it must have are up or have nodes."""
    homeless_from: datetime | None
    """Of pods that it must have."""
    leaves_room: bool
    conditions: tuple[Condition, ...]


def _view_clique(
    clique: PodClique, hash_: str, pods: Sequence[Pod], since: str | None
) -> _CliqueView:
    labels = clique.metadata.labels
    template_hash = labels.get(names.POD_TEMPLATE_HASH)
    incarnation = incarnation_of(clique.metadata)
    needed = min(clique.min_available, clique.spec.replicas)
    complete = holds(clique.status.conditions, COMPLETE)
    up, done, scheduled, outdated, leaving = 0, 0, 0, False, False
    homeless: list[datetime] = []
    for pod in pods:
        leaving = leaving or leaves_room(pod)
        if is_ending(pod) or incarnation_of(pod.metadata) != incarnation:
            continue
        if is_finished(pod):
            done += pod.status.phase == "Succeeded"
            continue
        up += is_ready(pod)
        scheduled += is_scheduled(pod)
        if not pod.spec.node_name and (moment := homeless_from(pod)) is not None:
            homeless.append(moment)
        outdated = outdated or pod.metadata.labels.get(names.POD_TEMPLATE_HASH) != template_hash
    up += done
    placed = complete or scheduled + done >= needed
    return _CliqueView(
        name=clique.metadata.name,
        group=labels.get(names.SCALING_GROUP, ""),
        group_index=index_of(clique.metadata, names.SCALING_GROUP_REPLICA_INDEX) or 0,
        available=complete or up >= needed,
        updated=not outdated and labels.get(names.GENERATION_HASH) == hash_,
        lacking=not complete and up < min(_replaced(clique, since), clique.spec.replicas),
        # What is scaled to nothing has all that it needs.
        was_up=clique.status.healthy_incarnation is not None or not clique.spec.replicas,
        scheduled=scheduled > 0,
        placed=placed,
        homeless_from=None if placed else min(homeless, default=None),
        leaves_room=leaving,
        conditions=clique.status.conditions,
    )


def _replaced(clique: PodClique, since: str | None) -> int:
    """How many pods of a clique were ready when its update took them.

    What an update took that ended, and had begun before the set's did, is nothing to wait for.
    """
    progress = clique.status.update_progress
    return 0 if progress is None or _is_past(progress, since) else taken_by(progress)


def _is_past(progress: PodCliqueUpdateProgress, since: str | None) -> bool:
    began = progress.update_started_at
    if progress.update_ended_at is None or began is None or since is None:
        return False
    return parse_time(began) < parse_time(since)


def _view_replica(
    shape: _Shape,
    set_name: str,
    index: int,
    hash_: str,
    cliques: Sequence[_CliqueView],
    groups: Sequence[PodCliqueScalingGroup],
) -> ReplicaView:
    alone = {each.name: each for each in cliques if not each.group}
    members: defaultdict[str, list[_CliqueView]] = defaultdict(list)
    for each in cliques:
        if each.group:
            members[each.group].append(each)
    expected = [alone.get(names.clique(set_name, index, name)) for name in shape.alone]
    live_groups = {each.metadata.name: each for each in groups}
    group_views = [
        _view_group(live_groups.get(name), hash_, members.get(name, []), size)
        for name, size in (
            (names.scaling_group(set_name, index, short), size)
            for short, size in shape.groups.items()
        )
    ]
    updated_cliques = sum(each is not None and each.updated for each in expected)
    updated_groups = sum(each.updated for each in group_views)
    whole = all(each is not None for each in expected) and all(each.whole for each in group_views)
    conditions = [each.conditions for each in cliques]
    return ReplicaView(
        index=index,
        present=True,
        available=all(each is not None and each.available for each in expected)
        and all(each.available for each in group_views),
        was_up=all(each is not None and each.was_up for each in expected)
        and all(each.was_up for each in group_views),
        updated=updated_cliques == len(expected) and updated_groups == len(group_views),
        lacking=any(each is not None and each.lacking for each in expected)
        or any(each.lacking for each in group_views),
        outdated=any(not each.updated for each in cliques)
        or any(each.metadata.labels.get(names.GENERATION_HASH) != hash_ for each in groups),
        scheduled=any(each.scheduled for each in cliques),
        homeless_from=None
        if any(each.leaves_room for each in cliques)
        else min(
            (
                each.homeless_from
                for each in (*expected, *group_views)
                if each is not None and each.homeless_from is not None
            ),
            default=None,
        ),
        breached=any(
            holds(each, BREACHED)
            for each in (*conditions, *(group.status.conditions for group in groups))
        ),
        complete=whole and bool(cliques) and all(holds(each, COMPLETE) for each in conditions),
        failed=any(holds(each, FAILED) for each in conditions),
        updated_cliques=updated_cliques,
        updated_groups=updated_groups,
    )


@dataclass(frozen=True, slots=True)
class _GroupView:
    whole: bool = False
    available: bool = False
    was_up: bool = False
    updated: bool = False
    lacking: bool = False
    homeless_from: datetime | None = None


def _view_group(
    group: PodCliqueScalingGroup | None, hash_: str, members: Sequence[_CliqueView], size: int
) -> _GroupView:
    if group is None:
        return _GroupView()
    replicas: defaultdict[int, list[_CliqueView]] = defaultdict(list)
    for each in members:
        if each.group_index < group.spec.replicas:
            replicas[each.group_index].append(each)
    whole = [each for each in replicas.values() if len(each) == size]
    available = sum(all(each.available for each in replica) for replica in whole)
    placed = sum(all(each.placed for each in replica) for replica in whole)
    were_up = sum(all(each.was_up for each in replica) for replica in whole)
    needed = min(group.spec.min_available, group.spec.replicas)
    is_whole = len(whole) == group.spec.replicas
    return _GroupView(
        whole=is_whole,
        available=available >= needed,
        was_up=were_up >= needed,
        updated=is_whole
        and group.metadata.labels.get(names.GENERATION_HASH) == hash_
        and all(each.updated for each in members),
        lacking=_has_lost(group, hash_, available, list(replicas.values())),
        homeless_from=min(
            (each.homeless_from for each in members if each.homeless_from and placed < needed),
            default=None,
        ),
    )


def _has_lost(
    group: PodCliqueScalingGroup,
    hash_: str,
    available: int,
    replicas: Sequence[Sequence[_CliqueView]],
) -> bool:
    """Whether a group has fewer replicas than before the update.

    Until it has told how many there were, those that were up at some time are missed.
    """
    progress = group.status.update_progress
    if progress is not None and progress.pod_clique_set_generation_hash == hash_:
        before = progress.available_replicas_at_start
        if before is not None:
            return available < min(before, group.spec.replicas)
    return any(
        all(each.was_up for each in members) and not all(each.available for each in members)
        for members in replicas
    )
