"""Topology constraints: their levels must exist, and nest. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kilonova.api.grove.podcliqueset import Template
from kilonova.api.grove.topology import SetTopologyConstraint, TopologyConstraint
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    forbidden,
    invalid_value,
    not_found,
    required,
)
from kilonova.workloads.admission.validation.structure import CLIQUES_PATH, SCALING_GROUPS_PATH
from kilonova.workloads.builders.topology_levels import get_preferred_domain, get_required_domain

TopologyLevels = Mapping[str, Sequence[str]]
"""The domains of each existing topology, broadest first."""

_SET_PATH = "spec.template.topologyConstraint"
_GROUP_KIND, _CLIQUE_KIND = "scaling group", "clique"


@dataclass(frozen=True, slots=True)
class ConstraintOwner:
    """The owner of a constraint: the set, a scaling group or a clique."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"' if self.name else f"the {self.kind}"


def iterate_constraints(
    template: Template,
) -> Iterator[tuple[str, TopologyConstraint, ConstraintOwner]]:
    """All constraints with path and owner, outer ones first."""
    if template.topology_constraint is not None:
        yield _SET_PATH, template.topology_constraint, ConstraintOwner("set")
    for index, group in enumerate(template.pod_clique_scaling_groups):
        if group.topology_constraint is not None:
            path = f"{SCALING_GROUPS_PATH}[{index}].topologyConstraint"
            yield path, group.topology_constraint, ConstraintOwner(_GROUP_KIND, group.name)
    for index, clique in enumerate(template.cliques):
        if clique.topology_constraint is not None:
            path = f"{CLIQUES_PATH}[{index}].topologyConstraint"
            yield path, clique.topology_constraint, ConstraintOwner(_CLIQUE_KIND, clique.name)


def validate_constraints(
    template: Template, *, enabled: bool, topologies: TopologyLevels
) -> Iterator[FieldError]:
    """Errors of the constraints of a set."""
    found = list(iterate_constraints(template))
    if not enabled:
        for path, _, _ in found:
            yield forbidden(path, "topology constraints are disabled in this cluster")
        return
    if not found:
        return
    errors = list(_validate_topology_names(template))
    yield from errors
    if errors:
        return
    path, name = next((p, c.topology_name) for p, c, _ in found if c.topology_name)
    if name not in topologies:
        rule = "the ClusterTopologyBinding does not exist"
        yield not_found(f"{path}.topologyName", name, rule)
        return
    yield from _validate_domains(found, name, topologies[name])
    yield from _validate_nesting(template, topologies[name])


def warn_about_constraints(template: Template, topologies: TopologyLevels) -> Iterator[str]:
    """Warnings for constraints that are valid but probably a mistake."""
    found = list(iterate_constraints(template))
    name = next((each.topology_name for _, each, _ in found if each.topology_name), "")
    levels = topologies.get(name, ())
    for path, constraint, _ in found:
        if constraint.pack_domain:
            yield f"{path}.packDomain: is deprecated; use pack.required"
        preferred = get_preferred_domain(constraint)
        needed = get_required_domain(constraint)
        if preferred and needed and _is_narrower(needed, preferred, levels):
            yield (
                f'{path}.pack.preferred: has no effect: "{preferred}" is broader than "{needed}", '
                "which is required"
            )


def list_topology_names(template: Template) -> set[str]:
    """The topologies that a set names."""
    return {
        each.topology_name for _, each, _ in iterate_constraints(template) if each.topology_name
    }


def _validate_topology_names(template: Template) -> Iterator[FieldError]:
    """Every constraint names a topology or inherits one, and all name the same."""
    outer = template.topology_constraint.topology_name if template.topology_constraint else ""
    inherited = {
        clique: group.topology_constraint.topology_name
        for group in template.pod_clique_scaling_groups
        if group.topology_constraint is not None
        for clique in group.clique_names
    }
    first = ""
    for path, constraint, owner in iterate_constraints(template):
        name = constraint.topology_name
        above = inherited.get(owner.name, "") if owner.kind == _CLIQUE_KIND else ""
        if not name and not (above or (outer if owner.kind != "set" else "")):
            yield required(f"{path}.topologyName", "must name a ClusterTopologyBinding")
        elif name and first and name != first:
            rule = f'must be the same in the whole set; another constraint has "{first}"'
            yield invalid_value(f"{path}.topologyName", name, rule)
        first = first or name


def _validate_domains(
    found: Sequence[tuple[str, TopologyConstraint, ConstraintOwner]],
    name: str,
    levels: Sequence[str],
) -> Iterator[FieldError]:
    for path, constraint, _ in found:
        for field, domain in _iterate_domains(constraint):
            if domain not in levels:
                rule = f'topology "{name}" has no such level; its levels are {", ".join(levels)}'
                yield invalid_value(f"{path}.{field}", domain, rule)


def _iterate_domains(constraint: TopologyConstraint) -> Iterator[tuple[str, str]]:
    if constraint.pack_domain:
        yield "packDomain", constraint.pack_domain
    if constraint.pack and constraint.pack.required:
        yield "pack.required", constraint.pack.required
    if constraint.pack and constraint.pack.preferred:
        yield "pack.preferred", constraint.pack.preferred
    if isinstance(constraint, SetTopologyConstraint) and constraint.spread:
        yield "spread.domain", constraint.spread.domain


def _validate_nesting(template: Template, levels: Sequence[str]) -> Iterator[FieldError]:
    """An inner constraint must not have a broader domain than an outer one."""
    found = list(iterate_constraints(template))
    members = {
        (group.name, clique)
        for group in template.pod_clique_scaling_groups
        for clique in group.clique_names
    }
    for path, outer, owner in found:
        for _, inner, child in found:
            is_inside = (owner.kind == "set" and child.kind != "set") or (
                owner.kind == _GROUP_KIND
                and child.kind == _CLIQUE_KIND
                and (owner.name, child.name) in members
            )
            if is_inside:
                yield from _validate_nested_pair(path, outer, owner, inner, child, levels)
    constraint = template.topology_constraint
    if constraint is not None and constraint.spread is not None:
        needed, spread_domain = get_required_domain(constraint), constraint.spread.domain
        if needed and _is_narrower(spread_domain, needed, levels):
            rule = f'must not be narrower than the domain each replica is packed into ("{needed}")'
            yield invalid_value(f"{_SET_PATH}.spread.domain", spread_domain, rule)


def _validate_nested_pair(
    path: str,
    outer: TopologyConstraint,
    owner: ConstraintOwner,
    inner: TopologyConstraint,
    child: ConstraintOwner,
    levels: Sequence[str],
) -> Iterator[FieldError]:
    pairs = (
        ("required", get_required_domain(outer), get_required_domain(inner)),
        ("preferred", get_preferred_domain(outer), get_preferred_domain(inner)),
    )
    for field, broad, narrow in pairs:
        if broad and narrow and _is_narrower(broad, narrow, levels):
            deprecated = field == "required" and outer.pack_domain
            below = "packDomain" if deprecated else f"pack.{field}"
            rule = f'{owner} must not be narrower than {child}, which has "{narrow}"'
            yield invalid_value(f"{path}.{below}", broad, rule)


def _is_narrower(domain: str, other: str, levels: Sequence[str]) -> bool:
    return domain in levels and other in levels and levels.index(domain) > levels.index(other)
