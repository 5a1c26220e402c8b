"""Restores the capacity holds of a previous leader from the pods that it was migrating.

Such a pod is terminating, and its condition names another node: there capacity is held for its
replacement.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from kilonova.api.podgang import PodGang
from kilonova.scheduler.consolidation.capacity_holds import CapacityHold, build_hold
from kilonova.scheduler.consolidation.migration_condition import migration_target
from kilonova.scheduler.convert.gangs.podgangs import (
    GangNotReady,
    convert_placed_podgang,
    convert_single_pod,
    is_placed,
)
from kilonova.scheduler.convert.pods.members import InvalidRequest, convert_pod
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache, Scores
from kilonova.scheduler.core.gpu.assignment import make_placements
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.objects.core_v1 import Pod


def restore_holds(
    snapshot: Snapshot, pods: Iterable[Pod], gangs: Iterable[PodGang]
) -> Iterator[CapacityHold]:
    """The holds that still fit, to be added one after the other."""
    migrating = {pod.key: pod for pod in pods if is_migrating(pod)}
    for gang in gangs if migrating else ():
        groups = {
            f"{ref.namespace}/{ref.name}": group.name
            for group in gang.spec.pod_groups
            for ref in group.pod_references
        }
        migrating_pods = {key: migrating.pop(key) for key in groups if key in migrating}
        converted = convert_placed_podgang(gang, migrating_pods.get) if migrating_pods else None
        if converted is not None:
            yield from _restore_hold(
                snapshot,
                converted,
                {key: (migrating_pods[key], groups[key]) for key in migrating_pods},
                "",
            )
    for key, pod in sorted(migrating.items()):
        converted, owner = convert_single_pod(pod), pod.metadata.controller
        if not isinstance(converted, GangNotReady) and owner is not None:
            yield from _restore_hold(snapshot, converted, {key: (pod, "")}, owner.uid)


def is_migrating(pod: Pod) -> bool:
    """Whether a pod is terminating and capacity is held for its replacement."""
    return bool(pod.metadata.deletion_timestamp and migration_target(pod)) and not pod.ended


def is_abandoned_migration(pod: Pod) -> bool:
    """Whether a migration was announced on a pod that was not evicted."""
    return is_placed(pod) and bool(migration_target(pod))


def _restore_hold(
    snapshot: Snapshot, gang: Gang, pods: dict[str, tuple[Pod, str]], owner: str
) -> Iterator[CapacityHold]:
    slots: list[tuple[str, str, PodPlacement]] = []
    trial = snapshot.begin_trial()
    for key, (pod, group) in pods.items():
        pod_placement = _place_on_target(snapshot, gang, pod)
        if pod_placement is not None:
            slots.append((key, group, pod_placement))
    snapshot.rollback(trial)
    if slots:
        yield build_hold(gang, slots, owner)


def _place_on_target(snapshot: Snapshot, gang: Gang, pod: Pod) -> PodPlacement | None:
    """Place the replacement of a pod on its target node, under the name of a placeholder."""
    node = migration_target(pod)
    if node not in snapshot:
        return None
    try:
        member = convert_pod(pod)
    except InvalidRequest:
        return None
    row = snapshot.row(node)
    if FeasibilityCache(snapshot, _equal_scores).free_capacity(member.shape)[row] < 1:
        return None
    [pod_placement] = make_placements(snapshot, row, [member], gang.name)
    [held] = build_hold(gang, [(pod.key, "", pod_placement)]).pod_placements
    snapshot.add_pod(held)
    return pod_placement


def _equal_scores(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    return np.zeros(len(rows))
