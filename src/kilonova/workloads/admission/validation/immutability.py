"""Fields of a set that are immutable. Pure."""

from collections.abc import Iterator

import msgspec

from kilonova.api.grove.podcliqueset import (
    ANY_ORDER,
    CliqueTemplate,
    ScalingGroupTemplate,
    Template,
)
from kilonova.api.grove.topology import SetTopologyConstraint, TopologyConstraint
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import forbidden, invalid_value
from kilonova.workloads.admission.validation.structure import CLIQUES_PATH, SCALING_GROUPS_PATH
from kilonova.workloads.admission.validation.topology_constraints import iterate_constraints
from kilonova.workloads.builders.topology_levels import get_preferred_domain, get_required_domain

_IMMUTABLE = "field is immutable"


def validate_immutable_fields(old: Template, new: Template) -> Iterator[FieldError]:
    """Errors for immutable fields that differ between two templates."""
    yield from _validate_unchanged(
        "spec.template.cliqueStartupType", old.clique_startup_type, new.clique_startup_type
    )
    yield from _validate_unchanged(
        "spec.template.resourceClaimTemplates",
        old.resource_claim_templates,
        new.resource_claim_templates,
    )
    yield from _validate_unchanged(
        "spec.template.resourceSharing", old.resource_sharing, new.resource_sharing
    )
    yield from _validate_cliques(old, new)
    yield from _validate_groups(old, new)
    yield from _validate_constraints(old, new)


def is_topology_name_added(old: Template, new: Template) -> bool:
    """Whether a constraint with only packDomain, of an older version, is given a topologyName."""
    before = {owner: each for _, each, owner in iterate_constraints(old)}
    return any(
        owner in before and _is_name_added(before[owner], each)
        for _, each, owner in iterate_constraints(new)
    )


def _validate_cliques(old: Template, new: Template) -> Iterator[FieldError]:
    before = {clique.name: clique for clique in old.cliques}
    after = [clique.name for clique in new.cliques]
    yield from _validate_membership(CLIQUES_PATH, list(before), after)
    if new.clique_startup_type != ANY_ORDER and sorted(before) == sorted(after):
        for index, (was, name) in enumerate(zip(before, after, strict=True)):
            if was != name:
                rule = f'cliques must keep their order: expected "{was}" at this index'
                yield invalid_value(f"{CLIQUES_PATH}[{index}].name", name, rule)
    for index, clique in enumerate(new.cliques):
        if clique.name in before:
            yield from _validate_clique(f"{CLIQUES_PATH}[{index}]", before[clique.name], clique)


def _validate_clique(path: str, old: CliqueTemplate, new: CliqueTemplate) -> Iterator[FieldError]:
    spec = f"{path}.spec"
    yield from _validate_unchanged(f"{spec}.roleName", old.role_name, new.role_name)
    yield from _validate_unchanged(
        f"{spec}.minAvailable", old.spec.min_available, new.spec.min_available
    )
    yield from _validate_unchanged(
        f"{spec}.startsAfter", old.spec.starts_after, new.spec.starts_after
    )
    yield from _validate_unchanged(
        f"{spec}.podSpec.schedulerName",
        old.spec.pod_spec.get("schedulerName") or "",
        new.spec.pod_spec.get("schedulerName") or "",
    )
    yield from _validate_unchanged(
        f"{path}.resourceSharing", old.resource_sharing, new.resource_sharing
    )


def _validate_groups(old: Template, new: Template) -> Iterator[FieldError]:
    before = {group.name: group for group in old.pod_clique_scaling_groups}
    after = [group.name for group in new.pod_clique_scaling_groups]
    yield from _validate_membership(SCALING_GROUPS_PATH, list(before), after)
    for index, group in enumerate(new.pod_clique_scaling_groups):
        if group.name in before:
            yield from _validate_group(f"{SCALING_GROUPS_PATH}[{index}]", before[group.name], group)


def _validate_group(
    path: str, old: ScalingGroupTemplate, new: ScalingGroupTemplate
) -> Iterator[FieldError]:
    yield from _validate_unchanged(f"{path}.cliqueNames", old.clique_names, new.clique_names)
    yield from _validate_unchanged(f"{path}.minAvailable", old.min_available, new.min_available)
    yield from _validate_unchanged(
        f"{path}.resourceSharing", old.resource_sharing, new.resource_sharing
    )


def _validate_membership(path: str, old: list[str], new: list[str]) -> Iterator[FieldError]:
    for index, name in enumerate(new):
        if name not in old:
            yield forbidden(
                f"{path}[{index}]", f'"{name}" cannot be added to an existing PodCliqueSet'
            )
    for name in old:
        if name not in new:
            yield forbidden(path, f'"{name}" cannot be removed from an existing PodCliqueSet')


def _validate_constraints(old: Template, new: Template) -> Iterator[FieldError]:
    before = {owner: (path, each) for path, each, owner in iterate_constraints(old)}
    after = {owner: (path, each) for path, each, owner in iterate_constraints(new)}
    for owner, (path, constraint) in after.items():
        if owner not in before:
            yield forbidden(path, "cannot be added to an existing PodCliqueSet")
        else:
            yield from _validate_constraint(path, before[owner][1], constraint)
    for owner, (path, _) in before.items():
        if owner not in after:
            yield forbidden(path, "cannot be removed from an existing PodCliqueSet")


def _validate_constraint(
    path: str, old: TopologyConstraint, new: TopologyConstraint
) -> Iterator[FieldError]:
    if not _is_name_added(old, new):
        yield from _validate_unchanged(f"{path}.topologyName", old.topology_name, new.topology_name)
    if new.pack_domain and not old.pack_domain:
        yield forbidden(f"{path}.packDomain", "is deprecated; use pack.required")
    else:
        field = "packDomain" if new.pack_domain else "pack.required"
        yield from _validate_unchanged(
            f"{path}.{field}", get_required_domain(old), get_required_domain(new)
        )
    yield from _validate_unchanged(
        f"{path}.pack.preferred", get_preferred_domain(old), get_preferred_domain(new)
    )
    if isinstance(old, SetTopologyConstraint) and isinstance(new, SetTopologyConstraint):
        yield from _validate_unchanged(f"{path}.spread", old.spread, new.spread)


def _is_name_added(old: TopologyConstraint, new: TopologyConstraint) -> bool:
    return bool(old.pack_domain and not old.topology_name and new.topology_name)


def _validate_unchanged(path: str, old: object, new: object) -> Iterator[FieldError]:
    if old == new:
        return
    if isinstance(new, str | int):
        was = "unset" if old is None or old == "" else msgspec.json.encode(old).decode()
        yield invalid_value(path, new, f"{_IMMUTABLE}: it was {was}")
    else:
        yield forbidden(path, _IMMUTABLE)
