"""Capacity held for the replacements of migrated pods.

A migrated pod is evicted, and its controller creates a replacement. Until that is placed its
capacity is **held** by a placeholder gang in the same queue and of the same priority: it counts as
if the pods were running there, and can be preempted as they could.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilonova.scheduler.core.consolidation.migration import GangMigration
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.filters.node_filters import FilterReason, filter_nodes
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.preemption.trial import can_restore

_HOLD_PREFIX = "moving/"
"""A prefix that no name of a pod or gang has with the same number of slashes."""


@dataclass(frozen=True, slots=True)
class HeldSlot:
    """Capacity for one replacement: the pod that leaves and its group (empty for a single pod)."""

    migrated_pod: str
    group: str
    pod_placement: PodPlacement


@dataclass(frozen=True, slots=True)
class CapacityHold:
    """Capacity for pods of one gang; `owner` is the UID of the controller of a single pod."""

    gang: str
    owner: str
    slots: tuple[HeldSlot, ...]
    as_gang: Gang
    """The placeholder gang that holds the capacity."""

    @property
    def pod_placements(self) -> tuple[PodPlacement, ...]:
        return tuple(slot.pod_placement for slot in self.slots)

    @property
    def migrated_pods(self) -> tuple[str, ...]:
        """The pods that are migrated."""
        return tuple(slot.migrated_pod for slot in self.slots)


def hold_for_migration(migration: GangMigration, owner: str = "") -> CapacityHold:
    """The capacity that a migration needs; `owner` is the controller of a single pod."""
    groups = {
        member.pod: "" if owner else group.name
        for group in migration.gang.groups
        for member in (*group.members, *group.placed_members)
    }
    slots = (
        (pod_placement.pod, groups.get(pod_placement.pod, ""), pod_placement)
        for pod_placement in migration.targets
    )
    return build_hold(migration.gang, slots, owner)


def build_hold(
    gang: Gang, slots: Iterable[tuple[str, str, PodPlacement]], owner: str = ""
) -> CapacityHold:
    """Capacity for pods of a gang, given as (migrated pod, group, target)."""
    name = _HOLD_PREFIX + gang.name
    held_slots = tuple(
        HeldSlot(
            migrated_pod,
            group,
            replace(pod_placement, member=_placeholder_member(pod_placement.member), gang=name),
        )
        for migrated_pod, group, pod_placement in slots
    )
    members = tuple(slot.pod_placement.member for slot in held_slots)
    group = Group(gang.name, (), len(members), placed_members=members)
    return CapacityHold(
        gang.name, owner, held_slots, replace(gang, name=name, groups=(group,), base_nodes=())
    )


def _placeholder_member(member: Member) -> Member:
    return replace(member, pod=_HOLD_PREFIX + member.pod)


def match_replacements(gang: Gang, hold: CapacityHold) -> list[tuple[HeldSlot, Member]] | None:
    """Which slot each pod of a recreated gang gets; None if a required pod gets none, because the
    gang has changed."""
    free_slots = list(hold.slots)
    matches: list[tuple[HeldSlot, Member]] = []
    for group in gang.groups:
        name = "" if hold.owner else group.name
        for number, member in enumerate(group.members):
            slot = next(
                (
                    each
                    for each in free_slots
                    if each.group == name and _has_same_shape(each, member)
                ),
                None,
            )
            if slot is not None:
                free_slots.remove(slot)
                matches.append((slot, member))
            elif number < group.needed:
                return None
    return matches or None


def _has_same_shape(slot: HeldSlot, member: Member) -> bool:
    """Whether a pod requests what its predecessor did; avoided nodes are ignored."""
    no_nodes = frozenset[str]()
    held_shape, requested_shape = slot.pod_placement.shape, member.shape
    return replace(held_shape, avoided_nodes=no_nodes) == replace(
        requested_shape, avoided_nodes=no_nodes
    )


class CapacityHolds:
    """All capacity holds of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._holds: dict[str, CapacityHold] = {}

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[CapacityHold]:
        return iter(list(self._holds.values()))

    @property
    def gang_names(self) -> set[str]:
        """Migrating gangs, by their own names and those of their placeholders."""
        return {name for hold in self for name in (hold.gang, hold.as_gang.name)}

    def add(self, hold: CapacityHold, now: float) -> None:
        """Add a hold, whose capacity must be free."""
        self._cluster.snapshot.add_pods(hold.pod_placements)
        self._cluster.record_placed(hold.as_gang, hold.pod_placements, now)
        self._holds[hold.gang] = hold

    def drop(self, hold: CapacityHold, pods: Iterable[str] | None = None) -> bool:
        """Drop a hold, or only the slots of pods that stay; False if it was dropped before."""
        current = self._holds.get(hold.gang)
        if current is None or current.as_gang is not hold.as_gang:
            return False
        dropped_pods = set(current.migrated_pods if pods is None else pods)
        self._release_slots([slot for slot in current.slots if slot.migrated_pod in dropped_pods])
        remaining = tuple(slot for slot in current.slots if slot.migrated_pod not in dropped_pods)
        if remaining:
            self._holds[hold.gang] = replace(current, slots=remaining)
        else:
            del self._holds[hold.gang]
        return True

    def hand_over(self, gang: Gang, hold: CapacityHold, now: float) -> GangPlacement | None:
        """Place the replacements on the held capacity; None, and the hold is dropped, if it is no
        longer available."""
        pairs = match_replacements(gang, hold)
        placements = self._cluster.snapshot.placements
        if pairs is None or any(
            placements.get(s.pod_placement.pod) is not s.pod_placement for s, _ in pairs
        ):
            self.drop(hold)
            return None
        self.drop(hold, [slot.migrated_pod for slot, _ in pairs])
        pod_placements = tuple(
            replace(slot.pod_placement, member=member, gang=gang.name) for slot, member in pairs
        )
        if not all(
            self._is_node_feasible(pod_placement) for pod_placement in pod_placements
        ) or not self.still_fit(pod_placements):
            self.drop(hold)
            return None
        self._cluster.snapshot.add_pods(pod_placements)
        self._cluster.record_placed(gang, pod_placements, now)
        return GangPlacement(gang, pod_placements)

    def still_fit(self, pod_placements: Sequence[PodPlacement]) -> bool:
        """Whether the capacity of these placements is free."""
        return can_restore(self._cluster.snapshot, pod_placements)

    def _is_node_feasible(self, pod_placement: PodPlacement) -> bool:
        """Whether a node is still feasible for a pod."""
        rows = np.array([pod_placement.row], np.intp)
        return (
            filter_nodes(self._cluster.snapshot, pod_placement.shape, rows)[0] == FilterReason.FITS
        )

    def _release_slots(self, slots: Iterable[HeldSlot]) -> None:
        """Release slots, except those that were preempted."""
        snapshot, running_gangs = self._cluster.snapshot, self._cluster.running_gangs
        for slot in slots:
            if snapshot.placements.get(slot.pod_placement.pod) is not slot.pod_placement:
                continue
            snapshot.remove_pod(slot.pod_placement.pod)
            placeholder = running_gangs.get(slot.pod_placement.gang)
            if placeholder is not None and slot.pod_placement.pod in placeholder.pods:
                self._cluster.record_removed(placeholder.gang.name, [slot.pod_placement.pod])


def target_nodes(hold: CapacityHold, names: list[str]) -> Mapping[str, str]:
    """The node on which capacity is held, by migrated pod."""
    return {slot.migrated_pod: names[slot.pod_placement.row] for slot in hold.slots}
