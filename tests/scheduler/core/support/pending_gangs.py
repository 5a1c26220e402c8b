"""Gangs with placed and pending pods, as the scheduler cache provides them."""

from collections.abc import Iterable
from dataclasses import replace

from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang


def list_pending(gangs: Iterable[Gang], cluster: Cluster) -> list[Gang]:
    """Gangs with pending pods, given the placed ones; `gangs` have all their members."""
    placements, names = cluster.snapshot.placements, cluster.snapshot.names
    found: list[Gang] = []
    for gang in gangs:
        groups = tuple(
            replace(
                group,
                members=tuple(m for m in group.members if m.pod not in placements),
                placed_members=tuple(m for m in group.members if m.pod in placements),
                placed_nodes=tuple(
                    names[placements[m.pod].row] for m in group.members if m.pod in placements
                ),
            )
            for group in gang.groups
        )
        if any(group.members for group in groups):
            found.append(replace(gang, groups=groups))
    return found
