"""Replicas, minAvailable and autoscaling bounds. Pure."""

from collections.abc import Iterator

from msgspec.structs import replace

from kilonova.api.grove.common import AutoScaling
from kilonova.api.grove.podcliqueset import (
    CliqueTemplate,
    PodCliqueSetSpec,
    ScalingGroupTemplate,
    Template,
)
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import forbidden, invalid_value, required
from kilonova.workloads.admission.validation.structure import CLIQUES_PATH, SCALING_GROUPS_PATH
from kilonova.workloads.limits import REPLICA_LIMIT, check_set_limits, count_replica_objects


def validate_replica_counts(template: Template) -> Iterator[FieldError]:
    """Errors of replicas, minAvailable and the bounds of autoscalers."""
    members = {
        name: group.name
        for group in template.pod_clique_scaling_groups
        for name in group.clique_names
    }
    for index, clique in enumerate(template.cliques):
        path = f"{CLIQUES_PATH}[{index}].spec"
        yield from _validate_clique(path, clique)
        if clique.spec.auto_scaling_config is not None and clique.name in members:
            rule = f'the clique is scaled by its scaling group "{members[clique.name]}"'
            yield forbidden(f"{path}.autoScalingConfig", rule)
    for index, group in enumerate(template.pod_clique_scaling_groups):
        yield from _validate_group(f"{SCALING_GROUPS_PATH}[{index}]", group)


def validate_limits(spec: PodCliqueSetSpec) -> Iterator[FieldError]:
    """Errors of a set that exceeds limits, with one replica or at autoscalers' maximum."""
    excess = check_set_limits(replace(spec, replicas=max(1, spec.replicas)))
    if excess is not None:
        yield invalid_value(excess.field, excess.value, excess.rule)
        return
    for path, scaling, scaled in _iterate_max_scaled_templates(spec.template):
        if excess := count_replica_objects(scaled).describe_excess(REPLICA_LIMIT):
            rule = f"results in {excess} per replica; reduce it"
            yield invalid_value(f"{path}.maxReplicas", scaling.max_replicas, rule)


def warn_about_replica_changes(old: Template, new: Template) -> Iterator[str]:
    """Warnings for changes of initial replica counts, which do not scale existing objects."""
    cliques = {each.name: each.spec.replicas for each in old.cliques}
    for index, clique in enumerate(new.cliques):
        if cliques.get(clique.name) != clique.spec.replicas:
            yield _replicas_change_warning(f"{CLIQUES_PATH}[{index}].spec.replicas", "podclique")
    groups = {each.name: each.replicas for each in old.pod_clique_scaling_groups}
    for index, group in enumerate(new.pod_clique_scaling_groups):
        if groups.get(group.name) != group.replicas:
            yield _replicas_change_warning(
                f"{SCALING_GROUPS_PATH}[{index}].replicas", "podcliquescalinggroup"
            )


def _iterate_max_scaled_templates(
    template: Template,
) -> Iterator[tuple[str, AutoScaling, Template]]:
    """The template with each autoscaled clique or group at its maxReplicas."""
    cliques, groups = template.cliques, template.pod_clique_scaling_groups
    for index, clique in enumerate(cliques):
        scaling = clique.spec.auto_scaling_config
        if scaling is not None:
            spec = replace(clique.spec, replicas=scaling.max_replicas)
            bigger = (*cliques[:index], replace(clique, spec=spec), *cliques[index + 1 :])
            path = f"{CLIQUES_PATH}[{index}].spec.autoScalingConfig"
            yield path, scaling, replace(template, cliques=bigger)
    for index, group in enumerate(groups):
        if group.scale_config is not None:
            largest = replace(group, replicas=group.scale_config.max_replicas)
            grown = (*groups[:index], largest, *groups[index + 1 :])
            path = f"{SCALING_GROUPS_PATH}[{index}].scaleConfig"
            yield path, group.scale_config, replace(template, pod_clique_scaling_groups=grown)


def _validate_clique(path: str, clique: CliqueTemplate) -> Iterator[FieldError]:
    spec = clique.spec
    yield from _validate_counts(path, spec.replicas, spec.min_available)
    scaling, min_available = spec.auto_scaling_config, spec.min_available
    if scaling is not None:
        path = f"{path}.autoScalingConfig"
        yield from _validate_autoscaling(
            path, scaling, 0 if min_available is None else min_available
        )
        if scaling.max_replicas < spec.replicas:
            rule = f"must be at least replicas ({spec.replicas})"
            yield invalid_value(f"{path}.maxReplicas", scaling.max_replicas, rule)


def _validate_group(path: str, group: ScalingGroupTemplate) -> Iterator[FieldError]:
    yield from _validate_counts(path, group.replicas, group.min_available)
    if group.scale_config is not None:
        yield from _validate_autoscaling(
            f"{path}.scaleConfig", group.scale_config, group.min_available
        )


def _validate_counts(path: str, replicas: int, min_available: int | None) -> Iterator[FieldError]:
    if replicas <= 0:
        yield invalid_value(f"{path}.replicas", replicas, "must be greater than 0")
    if min_available is None:
        yield required(f"{path}.minAvailable", "must be set")
    elif min_available <= 0:
        yield invalid_value(f"{path}.minAvailable", min_available, "must be greater than 0")
    elif min_available > replicas:
        rule = f"must not be greater than replicas ({replicas})"
        yield invalid_value(f"{path}.minAvailable", min_available, rule)


def _validate_autoscaling(
    path: str, scaling: AutoScaling, min_available: int
) -> Iterator[FieldError]:
    min_replicas, max_replicas = scaling.min_replicas, scaling.max_replicas
    if min_replicas is None:
        yield required(f"{path}.minReplicas", "must be set")
        return
    if min_replicas < min_available:
        rule = f"must be at least minAvailable ({min_available})"
        yield invalid_value(f"{path}.minReplicas", min_replicas, rule)
    if max_replicas < min_replicas:
        yield invalid_value(
            f"{path}.maxReplicas", max_replicas, f"must be at least minReplicas ({min_replicas})"
        )


def _replicas_change_warning(path: str, kind: str) -> str:
    return f"{path}: applies only to new objects; use `kubectl scale {kind}` for existing ones"
