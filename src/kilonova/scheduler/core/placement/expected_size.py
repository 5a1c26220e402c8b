"""A gang at its expected size: with surplus pods, and pods that are announced and do not exist yet.

Both follow into the domains of the required pods: where a domain is required, one with capacity for
all of them is preferred.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot

_EXPECTED_PREFIX = "coming/"


def expected_gangs(gang: Gang) -> Iterator[Gang]:
    """The gang with all announced pods, and with all existing ones, as required pods, where that
    makes a difference to the choice of domains; the gang itself is tried after these."""
    packs = (gang.pack, *(group.pack for group in gang.groups), *(b.pack for b in gang.bundles))
    if not any(pack.required for pack in packs):
        return
    if any(group.expected_pods for group in gang.groups):
        yield replace(gang, groups=tuple(_with_expected_pods(group) for group in gang.groups))
    if any(len(group.members) > group.needed for group in gang.groups):
        yield replace(gang, groups=tuple(map(_require_all, gang.groups)))


def remove_expected_pods(
    snapshot: Snapshot, placements: Iterable[PodPlacement]
) -> list[PodPlacement]:
    """The placements of existing pods; those of announced pods are removed."""
    kept: list[PodPlacement] = []
    for placement in placements:
        if placement.pod.startswith(_EXPECTED_PREFIX):
            snapshot.remove_pod(placement.pod)
        else:
            kept.append(placement)
    return kept


def _with_expected_pods(group: Group) -> Group:
    known = (*group.members, *group.placed_members)
    # Claims and affinity rules apply to a pod by its name and labels, which are not known.
    if not known or known[0].shape.claims or known[0].shape.pod_rules is not None:
        return _require_all(group)
    names = (f"{_EXPECTED_PREFIX}{group.name}-{number}" for number in range(group.expected_pods))
    coming = tuple(Member(name, known[0].shape) for name in names)
    return _require_all(replace(group, members=(*group.members, *coming)))


def _require_all(group: Group) -> Group:
    return replace(group, minimum=max(group.minimum, len(group.placed_nodes) + len(group.members)))
