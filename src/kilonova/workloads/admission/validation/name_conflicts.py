"""Names that two objects of one set would share, now or after scaling.

Names are segments joined by dashes, and segments may contain dashes: a standalone clique `a-0-b`
has the same name as the clique `b` in the first replica of a scaling group `a`. Such a set is
rejected.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from kilonova.api.grove.podcliqueset import ResourceSharing, Template
from kilonova.workloads.builders.template_lookup import find_group_of_clique

_INDEX_PLACEHOLDER = "#"
"""A placeholder for any index; not a valid character of names."""


@dataclass(frozen=True, slots=True)
class NameConflict:
    """Two objects of a kind that can have the same name."""

    kind: str
    one: str
    other: str


def find_name_conflicts(template: Template) -> list[NameConflict]:
    """All name conflicts that replicas of a template can have."""
    return [
        NameConflict(kind, one, other)
        for kind, named in (
            ("PodClique", _list_clique_names(template)),
            ("HorizontalPodAutoscaler", _list_autoscaler_names(template)),
            ("ResourceClaim", _list_claim_names(template)),
        )
        for (first, one), (second, other) in combinations(named, 2)
        if _can_coincide(first, second)
    ]


_NamePattern = tuple[str, str]
"""A name within a replica, with `_INDEX_PLACEHOLDER` for each index, and a description of its
object.
"""


def _list_clique_names(template: Template) -> Iterator[_NamePattern]:
    for clique in template.cliques:
        group = find_group_of_clique(template, clique.name)
        if group is None:
            yield clique.name, f"clique {clique.name}"
        else:
            description = f"clique {clique.name} of scaling group {group.name}"
            yield f"{group.name}-{_INDEX_PLACEHOLDER}-{clique.name}", description


def _list_autoscaler_names(template: Template) -> Iterator[_NamePattern]:
    for clique in template.cliques:
        if clique.spec.auto_scaling_config and find_group_of_clique(template, clique.name) is None:
            yield clique.name, f"clique {clique.name}"
    for group in template.pod_clique_scaling_groups:
        if group.scale_config:
            yield group.name, f"scaling group {group.name}"


def _list_claim_names(template: Template) -> Iterator[_NamePattern]:
    for sharing in template.resource_sharing:
        if sharing.scope == "PerReplica":
            yield sharing.name, f"claim {sharing.name} of the set"
    for group in template.pod_clique_scaling_groups:
        for sharing in group.resource_sharing:
            yield (
                _build_claim_name(group.name, sharing),
                f"claim {sharing.name} of scaling group {group.name}",
            )
    for clique, (owner, description) in zip(
        template.cliques, _list_clique_names(template), strict=True
    ):
        for sharing in clique.resource_sharing:
            yield _build_claim_name(owner, sharing), f"claim {sharing.name} of {description}"


def _build_claim_name(owner: str, sharing: ResourceSharing) -> str:
    replica = "all" if sharing.scope == "AllReplicas" else _INDEX_PLACEHOLDER
    return f"{owner}-{replica}-{sharing.name}"


def _can_coincide(one: str, other: str) -> bool:
    """Whether two names are equal for some indexes; indexes contain no dashes."""
    first, second = one.split("-"), other.split("-")
    return len(first) == len(second) and all(map(_is_same_segment, first, second))


def _is_same_segment(one: str, other: str) -> bool:
    if one == _INDEX_PLACEHOLDER:
        return other == _INDEX_PLACEHOLDER or other.isdecimal()
    return one == other or (other == _INDEX_PLACEHOLDER and one.isdecimal())
