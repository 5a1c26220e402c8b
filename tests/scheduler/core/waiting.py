"""What the shell tells of gangs of which some pods have a place, and others wait."""

from collections.abc import Iterable
from dataclasses import replace

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang


def waiting(gangs: Iterable[Gang], cluster: Cluster) -> list[Gang]:
    """Those that have pods without a place, by what stands now; `gangs` have all their members."""
    bookings, names = cluster.snapshot.bookings, cluster.snapshot.names
    found: list[Gang] = []
    for gang in gangs:
        groups = tuple(
            replace(
                group,
                members=tuple(m for m in group.members if m.pod not in bookings),
                standing=tuple(m for m in group.members if m.pod in bookings),
                placed=tuple(
                    names[bookings[m.pod].row] for m in group.members if m.pod in bookings
                ),
            )
            for group in gang.groups
        )
        if any(group.members for group in groups):
            found.append(replace(gang, groups=groups))
    return found
