"""Names that two objects of one set would share, now or after some scaling.

Names are parts joined by dashes, and parts may have dashes: a clique `a-0-b` that stands alone is
named as the clique `b` in the first replica of a scaling group `a`. Such a set must be refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from kilonova.api.grove.podcliqueset import ResourceSharing, Template
from kilonova.workloads.templates.lookup import group_of

_NUMBER = "#"
"""Stands for any index; in no name."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Two objects of a kind that may come to have one name."""

    kind: str
    one: str
    other: str


def name_clashes(template: Template) -> list[Clash]:
    """All clashes of names that replicas of a template may come to have."""
    return [
        Clash(kind, one, other)
        for kind, named in (
            ("PodClique", _cliques(template)),
            ("HorizontalPodAutoscaler", _autoscalers(template)),
            ("ResourceClaim", _claims(template)),
        )
        for (first, one), (second, other) in combinations(named, 2)
        if _meet(first, second)
    ]


_Named = tuple[str, str]
"""A name within a replica, with `_NUMBER` for each index, and what is named so."""


def _cliques(template: Template) -> Iterator[_Named]:
    for clique in template.cliques:
        group = group_of(template, clique.name)
        if group is None:
            yield clique.name, f"clique {clique.name}"
        else:
            what = f"clique {clique.name} of scaling group {group.name}"
            yield f"{group.name}-{_NUMBER}-{clique.name}", what


def _autoscalers(template: Template) -> Iterator[_Named]:
    for clique in template.cliques:
        if clique.spec.auto_scaling_config and group_of(template, clique.name) is None:
            yield clique.name, f"clique {clique.name}"
    for group in template.pod_clique_scaling_groups:
        if group.scale_config:
            yield group.name, f"scaling group {group.name}"


def _claims(template: Template) -> Iterator[_Named]:
    for sharing in template.resource_sharing:
        if sharing.scope == "PerReplica":
            yield sharing.name, f"claim {sharing.name} of the set"
    for group in template.pod_clique_scaling_groups:
        for sharing in group.resource_sharing:
            yield _claim(group.name, sharing), f"claim {sharing.name} of scaling group {group.name}"
    for clique, (owner, what) in zip(template.cliques, _cliques(template), strict=True):
        for sharing in clique.resource_sharing:
            yield _claim(owner, sharing), f"claim {sharing.name} of {what}"


def _claim(owner: str, sharing: ResourceSharing) -> str:
    replica = "all" if sharing.scope == "AllReplicas" else _NUMBER
    return f"{owner}-{replica}-{sharing.name}"


def _meet(one: str, other: str) -> bool:
    """Whether two names are the same for some indexes: dashes are nowhere else than between."""
    first, second = one.split("-"), other.split("-")
    return len(first) == len(second) and all(map(_same, first, second))


def _same(one: str, other: str) -> bool:
    if one == _NUMBER:
        return other == _NUMBER or other.isdecimal()
    return one == other or (other == _NUMBER and one.isdecimal())
