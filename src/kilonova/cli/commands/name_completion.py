"""Shell completion of names of objects and components."""

from collections.abc import Iterable

import typer

from kilonova.component.command.name_completion import ResourceTuple, complete_names

_NODES: ResourceTuple = ("", "v1", "nodes", "Node", False)
_PODS: ResourceTuple = ("", "v1", "pods", "Pod", True)
_GANGS: ResourceTuple = ("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
_QUEUES: ResourceTuple = ("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)
_WORKLOADS: tuple[ResourceTuple, ...] = (
    ("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True),
    ("apps", "v1", "deployments", "Deployment", True),
    ("apps", "v1", "statefulsets", "StatefulSet", True),
    ("batch", "v1", "jobs", "Job", True),
    ("kgwe.nvidia.io", "v1", "gpuworkloads", "GPUWorkload", True),
)
_OWNERS: tuple[ResourceTuple, ...] = (
    *_WORKLOADS,
    ("apps", "v1", "replicasets", "ReplicaSet", True),
    ("apps", "v1", "daemonsets", "DaemonSet", True),
    ("batch", "v1", "cronjobs", "CronJob", True),
    ("grove.io", "v1alpha1", "podcliques", "PodClique", True),
    ("grove.io", "v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup", True),
)


def complete_component_list(incomplete: str, names: Iterable[str]) -> list[str]:
    """A comma-separated list of names, whose last one has this prefix."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{each}" for each in names if each.startswith(last)]


def complete_installable_components(incomplete: str) -> list[str]:
    """Components that have CRDs."""
    from kilonova.component import find_components

    names = (each.name for each in find_components() if each.kinds)
    return complete_component_list(incomplete, names)


def complete_nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Names of nodes with this prefix."""
    return complete_names(incomplete, context.params, (_NODES,))


def complete_queues(context: typer.Context, incomplete: str) -> list[str]:
    """Names of queues with this prefix."""
    return complete_names(incomplete, context.params, (_QUEUES,))


def complete_gangs(context: typer.Context, incomplete: str) -> list[str]:
    """Names of gangs of the namespace with this prefix."""
    return complete_names(incomplete, context.params, (_GANGS,))


def complete_explainable_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of pods, gangs and PodCliqueSets of the namespace with this prefix; after `KIND/`,
    names of that kind."""
    from kilonova.api.group_kinds import GroupKind
    from kilonova.cli.why.workload_members import parse_owner_kind

    typed_kind, slash, prefix = incomplete.partition("/")
    if not slash:
        return complete_names(incomplete, context.params, (_GANGS, _PODS, _WORKLOADS[0]))
    kind = parse_owner_kind(typed_kind)
    known = (_PODS, _GANGS, *_OWNERS)
    resources = [each for each in known if kind.matches(GroupKind(each[0], each[3]))]
    return [f"{typed_kind}/{name}" for name in complete_names(prefix, context.params, resources)]


def complete_workloads(context: typer.Context, incomplete: str) -> list[str]:
    """Names of workloads of the namespace with this prefix."""
    return complete_names(incomplete, context.params, _WORKLOADS)
