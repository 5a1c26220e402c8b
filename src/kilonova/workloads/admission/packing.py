"""Topology constraints: levels that exist, and that fit into each other. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kilonova.api.grove.podcliqueset import Template
from kilonova.api.grove.topology import SetTopologyConstraint, TopologyConstraint
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.composition import CLIQUES, GROUPS
from kilonova.workloads.admission.findings import forbidden, invalid_value, not_found, required
from kilonova.workloads.templates.topology import preferred_domain, required_domain

Topologies = Mapping[str, Sequence[str]]
"""The domains of each topology that there is, broadest first."""

_SET = "spec.template.topologyConstraint"
_GROUP_KIND, _CLIQUE_KIND = "scaling group", "clique"


@dataclass(frozen=True, slots=True)
class Owner:
    """What a constraint is on: the set, a scaling group or a clique."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"' if self.name else f"the {self.kind}"


def constraints_of(template: Template) -> Iterator[tuple[str, TopologyConstraint, Owner]]:
    """All constraints: where each is, what it says, and on what it is. Outer ones first."""
    if template.topology_constraint is not None:
        yield _SET, template.topology_constraint, Owner("set")
    for index, group in enumerate(template.pod_clique_scaling_groups):
        if group.topology_constraint is not None:
            path = f"{GROUPS}[{index}].topologyConstraint"
            yield path, group.topology_constraint, Owner(_GROUP_KIND, group.name)
    for index, clique in enumerate(template.cliques):
        if clique.topology_constraint is not None:
            path = f"{CLIQUES}[{index}].topologyConstraint"
            yield path, clique.topology_constraint, Owner(_CLIQUE_KIND, clique.name)


def packing_problems(
    template: Template, *, enabled: bool, topologies: Topologies
) -> Iterator[Problem]:
    """What is wrong with the constraints of a set."""
    found = list(constraints_of(template))
    if not enabled:
        for path, _, _ in found:
            yield forbidden(path, "topology constraints are off in this cluster")
        return
    if not found:
        return
    troubles = list(_name_problems(template))
    yield from troubles
    if troubles:
        return
    path, name = next((p, c.topology_name) for p, c, _ in found if c.topology_name)
    if name not in topologies:
        rule = "there is no ClusterTopologyBinding of this name"
        yield not_found(f"{path}.topologyName", name, rule)
        return
    yield from _domain_problems(found, name, topologies[name])
    yield from _nesting_problems(template, topologies[name])


def packing_warnings(template: Template, topologies: Topologies) -> Iterator[str]:
    """What is allowed, and hardly meant."""
    found = list(constraints_of(template))
    name = next((each.topology_name for _, each, _ in found if each.topology_name), "")
    levels = topologies.get(name, ())
    for path, constraint, _ in found:
        if constraint.pack_domain:
            yield f"{path}.packDomain: is deprecated; use pack.required"
        preferred = preferred_domain(constraint)
        needed = required_domain(constraint)
        if preferred and needed and _is_narrower(needed, preferred, levels):
            yield (
                f'{path}.pack.preferred: has no effect: "{preferred}" is broader than "{needed}", '
                "which is required"
            )


def topology_names(template: Template) -> set[str]:
    """Which topologies a set names."""
    return {each.topology_name for _, each, _ in constraints_of(template) if each.topology_name}


def _name_problems(template: Template) -> Iterator[Problem]:
    """Every constraint names a topology or is within one that does; all name the same."""
    outer = template.topology_constraint.topology_name if template.topology_constraint else ""
    inherited = {
        clique: group.topology_constraint.topology_name
        for group in template.pod_clique_scaling_groups
        if group.topology_constraint is not None
        for clique in group.clique_names
    }
    first = ""
    for path, constraint, owner in constraints_of(template):
        name = constraint.topology_name
        above = inherited.get(owner.name, "") if owner.kind == _CLIQUE_KIND else ""
        if not name and not (above or (outer if owner.kind != "set" else "")):
            yield required(f"{path}.topologyName", "must name a ClusterTopologyBinding")
        elif name and first and name != first:
            rule = f'must be the same in all of a set; another is "{first}"'
            yield invalid_value(f"{path}.topologyName", name, rule)
        first = first or name


def _domain_problems(
    found: Sequence[tuple[str, TopologyConstraint, Owner]], name: str, levels: Sequence[str]
) -> Iterator[Problem]:
    for path, constraint, _ in found:
        for field, domain in _domains(constraint):
            if domain not in levels:
                rule = f'topology "{name}" has no such level; it has {", ".join(levels)}'
                yield invalid_value(f"{path}.{field}", domain, rule)


def _domains(constraint: TopologyConstraint) -> Iterator[tuple[str, str]]:
    if constraint.pack_domain:
        yield "packDomain", constraint.pack_domain
    if constraint.pack and constraint.pack.required:
        yield "pack.required", constraint.pack.required
    if constraint.pack and constraint.pack.preferred:
        yield "pack.preferred", constraint.pack.preferred
    if isinstance(constraint, SetTopologyConstraint) and constraint.spread:
        yield "spread.domain", constraint.spread.domain


def _nesting_problems(template: Template, levels: Sequence[str]) -> Iterator[Problem]:
    """What is inside something stands in no broader a domain than that."""
    found = list(constraints_of(template))
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
                yield from _pair_problems(path, outer, owner, inner, child, levels)
    constraint = template.topology_constraint
    if constraint is not None and constraint.spread is not None:
        needed, apart = required_domain(constraint), constraint.spread.domain
        if needed and _is_narrower(apart, needed, levels):
            rule = f'must not be narrower than what each replica is packed into ("{needed}")'
            yield invalid_value(f"{_SET}.spread.domain", apart, rule)


def _pair_problems(
    path: str,
    outer: TopologyConstraint,
    owner: Owner,
    inner: TopologyConstraint,
    child: Owner,
    levels: Sequence[str],
) -> Iterator[Problem]:
    pairs = (
        ("required", required_domain(outer), required_domain(inner)),
        ("preferred", preferred_domain(outer), preferred_domain(inner)),
    )
    for field, broad, narrow in pairs:
        if broad and narrow and _is_narrower(broad, narrow, levels):
            old = field == "required" and outer.pack_domain
            below = "packDomain" if old else f"pack.{field}"
            rule = f'{owner} must not be narrower than {child}, which has "{narrow}"'
            yield invalid_value(f"{path}.{below}", broad, rule)


def _is_narrower(domain: str, other: str, levels: Sequence[str]) -> bool:
    return domain in levels and other in levels and levels.index(domain) > levels.index(other)
