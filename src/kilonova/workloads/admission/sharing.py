"""Claims of devices that pods share. Pure."""

from collections.abc import Collection, Iterator, Sequence

from kilonova.api.grove.podcliqueset import (
    ChildFilter,
    CliqueFilter,
    ResourceSharing,
    Template,
)
from kilonova.api.json import JsonObject
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.composition import CLIQUES, GROUPS
from kilonova.workloads.admission.findings import duplicate, invalid_value, not_found, required
from kilonova.workloads.admission.syntax import dns_subdomain

_TEMPLATES = "spec.template.resourceClaimTemplates"
_SHARING = "resourceSharing"


def sharing_problems(template: Template) -> Iterator[Problem]:
    """What is wrong with claim templates, and with who shares them."""
    yield from _template_problems(template)
    own = {each.name for each in template.resource_claim_templates}
    cliques = {clique.name for clique in template.cliques}
    groups = {group.name for group in template.pod_clique_scaling_groups}
    path = f"spec.template.{_SHARING}"
    yield from _list_problems(path, template.resource_sharing, own)
    for place, shared in enumerate(template.resource_sharing):
        yield from _filter_problems(f"{path}[{place}].filter", shared.filter, cliques, groups)
    for index, clique in enumerate(template.cliques):
        yield from _list_problems(f"{CLIQUES}[{index}].{_SHARING}", clique.resource_sharing, own)
    for index, group in enumerate(template.pod_clique_scaling_groups):
        path = f"{GROUPS}[{index}].{_SHARING}"
        yield from _list_problems(path, group.resource_sharing, own)
        for place, shared in enumerate(group.resource_sharing):
            below = f"{path}[{place}].filter"
            yield from _filter_problems(below, shared.filter, group.clique_names, ())


def _template_problems(template: Template) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, each in enumerate(template.resource_claim_templates):
        path = f"{_TEMPLATES}[{index}]"
        yield from _name_problems(f"{path}.name", each.name, seen)
        spec: JsonObject = each.template_spec.get("spec") or {}
        devices: JsonObject = spec.get("devices") or {}
        if not devices.get("requests"):
            rule = "a claim asks for at least one device"
            yield required(f"{path}.templateSpec.spec.devices.requests", rule)


def _list_problems(
    path: str, shared: Sequence[ResourceSharing], own: Collection[str]
) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, each in enumerate(shared):
        yield from _name_problems(f"{path}[{index}].name", each.name, seen)
        if each.namespace and each.name in own:
            rule = f'must be empty: "{each.name}" is a resourceClaimTemplate of this set'
            yield invalid_value(f"{path}[{index}].namespace", each.namespace, rule)


def _name_problems(path: str, name: str, seen: set[str]) -> Iterator[Problem]:
    if not name:
        yield required(path, "must be the name of a claim template")
    elif trouble := dns_subdomain(name):
        yield invalid_value(path, name, trouble)
    elif name in seen:
        yield duplicate(path, name)
    seen.add(name)


def _filter_problems(
    path: str, chosen: CliqueFilter | None, cliques: Collection[str], groups: Collection[str]
) -> Iterator[Problem]:
    if chosen is None:
        return
    named_groups = chosen.child_scaling_group_names if isinstance(chosen, ChildFilter) else ()
    if not chosen.child_clique_names and not named_groups:
        yield required(path, "a filter names somebody")
    for place, name in enumerate(chosen.child_clique_names):
        if name not in cliques:
            yield not_found(f"{path}.childCliqueNames[{place}]", name, "must be a clique of this")
    for place, name in enumerate(named_groups):
        if name not in groups:
            field = f"{path}.childScalingGroupNames[{place}]"
            yield not_found(field, name, "must be a scaling group of this set")
