"""What of a set may never change. Pure."""

from collections.abc import Iterator

import msgspec

from kilonova.api.grove.podcliqueset import (
    ANY_ORDER,
    CliqueTemplate,
    ScalingGroupTemplate,
    Template,
)
from kilonova.api.grove.topology import SetTopologyConstraint, TopologyConstraint
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.composition import CLIQUES, GROUPS
from kilonova.workloads.admission.findings import forbidden, invalid_value
from kilonova.workloads.admission.packing import constraints_of
from kilonova.workloads.templates.topology import preferred_domain, required_domain

_IMMUTABLE = "field is immutable"


def forbidden_changes(old: Template, new: Template) -> Iterator[Problem]:
    """What differs between two templates, and must not."""
    yield from _changed(
        "spec.template.cliqueStartupType", old.clique_startup_type, new.clique_startup_type
    )
    yield from _changed(
        "spec.template.resourceClaimTemplates",
        old.resource_claim_templates,
        new.resource_claim_templates,
    )
    yield from _changed("spec.template.resourceSharing", old.resource_sharing, new.resource_sharing)
    yield from _clique_changes(old, new)
    yield from _group_changes(old, new)
    yield from _constraint_changes(old, new)


def is_topology_named(old: Template, new: Template) -> bool:
    """Whether a constraint from before there were names is given the name of its topology."""
    before = {owner: each for _, each, owner in constraints_of(old)}
    return any(
        owner in before and _is_named(before[owner], each) for _, each, owner in constraints_of(new)
    )


def _clique_changes(old: Template, new: Template) -> Iterator[Problem]:
    before = {clique.name: clique for clique in old.cliques}
    after = [clique.name for clique in new.cliques]
    yield from _membership_changes(CLIQUES, list(before), after)
    if new.clique_startup_type != ANY_ORDER and sorted(before) == sorted(after):
        for index, (was, name) in enumerate(zip(before, after, strict=True)):
            if was != name:
                rule = f'cliques must stay in order: this place is of "{was}"'
                yield invalid_value(f"{CLIQUES}[{index}].name", name, rule)
    for index, clique in enumerate(new.cliques):
        if clique.name in before:
            yield from _changes_of_clique(f"{CLIQUES}[{index}]", before[clique.name], clique)


def _changes_of_clique(path: str, old: CliqueTemplate, new: CliqueTemplate) -> Iterator[Problem]:
    spec = f"{path}.spec"
    yield from _changed(f"{spec}.roleName", old.role_name, new.role_name)
    yield from _changed(f"{spec}.minAvailable", old.spec.min_available, new.spec.min_available)
    yield from _changed(f"{spec}.startsAfter", old.spec.starts_after, new.spec.starts_after)
    yield from _changed(
        f"{spec}.podSpec.schedulerName",
        old.spec.pod_spec.get("schedulerName") or "",
        new.spec.pod_spec.get("schedulerName") or "",
    )
    yield from _changed(f"{path}.resourceSharing", old.resource_sharing, new.resource_sharing)


def _group_changes(old: Template, new: Template) -> Iterator[Problem]:
    before = {group.name: group for group in old.pod_clique_scaling_groups}
    after = [group.name for group in new.pod_clique_scaling_groups]
    yield from _membership_changes(GROUPS, list(before), after)
    for index, group in enumerate(new.pod_clique_scaling_groups):
        if group.name in before:
            yield from _changes_of_group(f"{GROUPS}[{index}]", before[group.name], group)


def _changes_of_group(
    path: str, old: ScalingGroupTemplate, new: ScalingGroupTemplate
) -> Iterator[Problem]:
    yield from _changed(f"{path}.cliqueNames", old.clique_names, new.clique_names)
    yield from _changed(f"{path}.minAvailable", old.min_available, new.min_available)
    yield from _changed(f"{path}.resourceSharing", old.resource_sharing, new.resource_sharing)


def _membership_changes(path: str, old: list[str], new: list[str]) -> Iterator[Problem]:
    for index, name in enumerate(new):
        if name not in old:
            yield forbidden(f"{path}[{index}]", f'"{name}" cannot be added to a set that exists')
    for name in old:
        if name not in new:
            yield forbidden(path, f'"{name}" cannot be removed from a set that exists')


def _constraint_changes(old: Template, new: Template) -> Iterator[Problem]:
    before = {owner: (path, each) for path, each, owner in constraints_of(old)}
    after = {owner: (path, each) for path, each, owner in constraints_of(new)}
    for owner, (path, constraint) in after.items():
        if owner not in before:
            yield forbidden(path, "cannot be added to a set that exists")
        else:
            yield from _changes_of_constraint(path, before[owner][1], constraint)
    for owner, (path, _) in before.items():
        if owner not in after:
            yield forbidden(path, "cannot be removed from a set that exists")


def _changes_of_constraint(
    path: str, old: TopologyConstraint, new: TopologyConstraint
) -> Iterator[Problem]:
    if not _is_named(old, new):
        yield from _changed(f"{path}.topologyName", old.topology_name, new.topology_name)
    if new.pack_domain and not old.pack_domain:
        yield forbidden(f"{path}.packDomain", "is deprecated; use pack.required")
    else:
        field = "packDomain" if new.pack_domain else "pack.required"
        yield from _changed(f"{path}.{field}", required_domain(old), required_domain(new))
    yield from _changed(f"{path}.pack.preferred", preferred_domain(old), preferred_domain(new))
    if isinstance(old, SetTopologyConstraint) and isinstance(new, SetTopologyConstraint):
        yield from _changed(f"{path}.spread", old.spread, new.spread)


def _is_named(old: TopologyConstraint, new: TopologyConstraint) -> bool:
    return bool(old.pack_domain and not old.topology_name and new.topology_name)


def _changed(path: str, old: object, new: object) -> Iterator[Problem]:
    if old == new:
        return
    if isinstance(new, str | int):
        was = "unset" if old is None or old == "" else msgspec.json.encode(old).decode()
        yield invalid_value(path, new, f"{_IMMUTABLE}: it was {was}")
    else:
        yield forbidden(path, _IMMUTABLE)
