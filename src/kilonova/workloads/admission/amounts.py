"""How many of everything, at least and at most. Pure."""

from collections.abc import Iterator

from msgspec.structs import replace

from kilonova.api.grove.parts import AutoScaling
from kilonova.api.grove.podcliqueset import (
    CliqueTemplate,
    PodCliqueSetSpec,
    ScalingGroupTemplate,
    Template,
)
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.composition import CLIQUES, GROUPS
from kilonova.workloads.admission.findings import forbidden, invalid_value, required
from kilonova.workloads.limits import MOST_OF_REPLICA, replica_demand, set_excess


def amount_problems(template: Template) -> Iterator[Problem]:
    """Replicas, what must be there of them, and between what they are scaled."""
    members = {
        name: group.name
        for group in template.pod_clique_scaling_groups
        for name in group.clique_names
    }
    for index, clique in enumerate(template.cliques):
        path = f"{CLIQUES}[{index}].spec"
        yield from _clique_problems(path, clique)
        if clique.spec.auto_scaling_config is not None and clique.name in members:
            rule = f'the clique is scaled with its scaling group "{members[clique.name]}"'
            yield forbidden(f"{path}.autoScalingConfig", rule)
    for index, group in enumerate(template.pod_clique_scaling_groups):
        yield from _group_problems(f"{GROUPS}[{index}]", group)


def excess_problems(spec: PodCliqueSetSpec) -> Iterator[Problem]:
    """More than a set may have, with one replica at least, and as far as autoscalers may go."""
    excess = set_excess(replace(spec, replicas=max(1, spec.replicas)))
    if excess is not None:
        yield invalid_value(excess.field, excess.value, excess.rule)
        return
    for path, scaling, more in _scaled_to_the_most(spec.template):
        if told := replica_demand(more).beyond(MOST_OF_REPLICA):
            rule = f"a replica of the set would come to {told}: lower it"
            yield invalid_value(f"{path}.maxReplicas", scaling.max_replicas, rule)


def amount_warnings(old: Template, new: Template) -> Iterator[str]:
    """Where somebody changes how many there are to begin with, and may mean how many there are."""
    cliques = {each.name: each.spec.replicas for each in old.cliques}
    for index, clique in enumerate(new.cliques):
        if cliques.get(clique.name) != clique.spec.replicas:
            yield _only_new(f"{CLIQUES}[{index}].spec.replicas", "podclique")
    groups = {each.name: each.replicas for each in old.pod_clique_scaling_groups}
    for index, group in enumerate(new.pod_clique_scaling_groups):
        if groups.get(group.name) != group.replicas:
            yield _only_new(f"{GROUPS}[{index}].replicas", "podcliquescalinggroup")


def _scaled_to_the_most(template: Template) -> Iterator[tuple[str, AutoScaling, Template]]:
    """The template with each part that is scaled by load as big as its autoscaler may make it."""
    cliques, groups = template.cliques, template.pod_clique_scaling_groups
    for index, clique in enumerate(cliques):
        scaling = clique.spec.auto_scaling_config
        if scaling is not None:
            spec = replace(clique.spec, replicas=scaling.max_replicas)
            bigger = (*cliques[:index], replace(clique, spec=spec), *cliques[index + 1 :])
            path = f"{CLIQUES}[{index}].spec.autoScalingConfig"
            yield path, scaling, replace(template, cliques=bigger)
    for index, group in enumerate(groups):
        if group.scale_config is not None:
            most = replace(group, replicas=group.scale_config.max_replicas)
            grown = (*groups[:index], most, *groups[index + 1 :])
            path = f"{GROUPS}[{index}].scaleConfig"
            yield path, group.scale_config, replace(template, pod_clique_scaling_groups=grown)


def _clique_problems(path: str, clique: CliqueTemplate) -> Iterator[Problem]:
    spec = clique.spec
    yield from _count_problems(path, spec.replicas, spec.min_available)
    scaling, least = spec.auto_scaling_config, spec.min_available
    if scaling is not None:
        path = f"{path}.autoScalingConfig"
        yield from _scaling_problems(path, scaling, 0 if least is None else least)
        if scaling.max_replicas < spec.replicas:
            rule = f"must be at least replicas ({spec.replicas})"
            yield invalid_value(f"{path}.maxReplicas", scaling.max_replicas, rule)


def _group_problems(path: str, group: ScalingGroupTemplate) -> Iterator[Problem]:
    yield from _count_problems(path, group.replicas, group.min_available)
    if group.scale_config is not None:
        yield from _scaling_problems(f"{path}.scaleConfig", group.scale_config, group.min_available)


def _count_problems(path: str, replicas: int, min_available: int | None) -> Iterator[Problem]:
    if replicas <= 0:
        yield invalid_value(f"{path}.replicas", replicas, "must be greater than 0")
    if min_available is None:
        yield required(f"{path}.minAvailable", "must be set")
    elif min_available <= 0:
        yield invalid_value(f"{path}.minAvailable", min_available, "must be greater than 0")
    elif min_available > replicas:
        rule = f"must not be greater than replicas ({replicas})"
        yield invalid_value(f"{path}.minAvailable", min_available, rule)


def _scaling_problems(path: str, scaling: AutoScaling, min_available: int) -> Iterator[Problem]:
    least, most = scaling.min_replicas, scaling.max_replicas
    if least is None:
        yield required(f"{path}.minReplicas", "must be set")
        return
    if least < min_available:
        rule = f"must be at least minAvailable ({min_available})"
        yield invalid_value(f"{path}.minReplicas", least, rule)
    if most < least:
        yield invalid_value(f"{path}.maxReplicas", most, f"must be at least minReplicas ({least})")


def _only_new(path: str, kind: str) -> str:
    return f"{path}: counts for what is made from now on; `kubectl scale {kind}` what is there"
