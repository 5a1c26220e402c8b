"""ResourceClaims that pods share. Pure."""

from collections.abc import Collection, Iterator, Sequence

from kilonova.api.grove.podcliqueset import (
    ChildFilter,
    CliqueFilter,
    ResourceSharing,
    Template,
)
from kilonova.api.json import JsonObject
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    duplicate,
    invalid_value,
    not_found,
    required,
)
from kilonova.kube.admission.syntax import check_dns_subdomain
from kilonova.workloads.admission.validation.structure import CLIQUES_PATH, SCALING_GROUPS_PATH

_TEMPLATES_PATH = "spec.template.resourceClaimTemplates"
_SHARING_FIELD = "resourceSharing"


def validate_resource_sharing(template: Template) -> Iterator[FieldError]:
    """Errors of claim templates and of their sharing."""
    yield from _validate_claim_templates(template)
    own = {each.name for each in template.resource_claim_templates}
    cliques = {clique.name for clique in template.cliques}
    groups = {group.name for group in template.pod_clique_scaling_groups}
    path = f"spec.template.{_SHARING_FIELD}"
    yield from _validate_sharing_list(path, template.resource_sharing, own)
    for position, shared in enumerate(template.resource_sharing):
        yield from _validate_filter(f"{path}[{position}].filter", shared.filter, cliques, groups)
    for index, clique in enumerate(template.cliques):
        yield from _validate_sharing_list(
            f"{CLIQUES_PATH}[{index}].{_SHARING_FIELD}", clique.resource_sharing, own
        )
    for index, group in enumerate(template.pod_clique_scaling_groups):
        path = f"{SCALING_GROUPS_PATH}[{index}].{_SHARING_FIELD}"
        yield from _validate_sharing_list(path, group.resource_sharing, own)
        for position, shared in enumerate(group.resource_sharing):
            below = f"{path}[{position}].filter"
            yield from _validate_filter(below, shared.filter, group.clique_names, ())


def _validate_claim_templates(template: Template) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, each in enumerate(template.resource_claim_templates):
        path = f"{_TEMPLATES_PATH}[{index}]"
        yield from _validate_claim_name(f"{path}.name", each.name, seen)
        spec: JsonObject = each.template_spec.get("spec") or {}
        devices: JsonObject = spec.get("devices") or {}
        if not devices.get("requests"):
            rule = "at least one device request is needed"
            yield required(f"{path}.templateSpec.spec.devices.requests", rule)


def _validate_sharing_list(
    path: str, shared: Sequence[ResourceSharing], own_templates: Collection[str]
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, each in enumerate(shared):
        yield from _validate_claim_name(f"{path}[{index}].name", each.name, seen)
        if each.namespace and each.name in own_templates:
            rule = f'must be empty: "{each.name}" is a resourceClaimTemplate of this set'
            yield invalid_value(f"{path}[{index}].namespace", each.namespace, rule)


def _validate_claim_name(path: str, name: str, seen: set[str]) -> Iterator[FieldError]:
    if not name:
        yield required(path, "must be the name of a claim template")
    elif problem := check_dns_subdomain(name):
        yield invalid_value(path, name, problem)
    elif name in seen:
        yield duplicate(path, name)
    seen.add(name)


def _validate_filter(
    path: str, filter_: CliqueFilter | None, cliques: Collection[str], groups: Collection[str]
) -> Iterator[FieldError]:
    if filter_ is None:
        return
    named_groups = filter_.child_scaling_group_names if isinstance(filter_, ChildFilter) else ()
    if not filter_.child_clique_names and not named_groups:
        yield required(path, "must name at least one clique or scaling group")
    for position, name in enumerate(filter_.child_clique_names):
        if name not in cliques:
            yield not_found(
                f"{path}.childCliqueNames[{position}]", name, "must be a clique of the owner"
            )
    for position, name in enumerate(named_groups):
        if name not in groups:
            field = f"{path}.childScalingGroupNames[{position}]"
            yield not_found(field, name, "must be a scaling group of this set")
