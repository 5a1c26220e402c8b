"""Names that the shell offers on Tab: those of the cluster, as far as it answers at once.

Whoever presses Tab wants names or nothing, never an error.
"""

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

_PATIENCE = 2.0

_Place = tuple[str, str, str, str, bool]
"""A resource: group, version, plural, kind, and whether it is in namespaces."""

_NODES: _Place = ("", "v1", "nodes", "Node", False)
_PODS: _Place = ("", "v1", "pods", "Pod", True)
_NAMESPACES: _Place = ("", "v1", "namespaces", "Namespace", False)
_GANGS: _Place = ("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
_QUEUES: _Place = ("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)
_WORKLOADS: tuple[_Place, ...] = (
    ("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True),
    ("apps", "v1", "deployments", "Deployment", True),
    ("apps", "v1", "statefulsets", "StatefulSet", True),
    ("batch", "v1", "jobs", "Job", True),
)
_OWNERS: tuple[_Place, ...] = (
    *_WORKLOADS,
    ("apps", "v1", "replicasets", "ReplicaSet", True),
    ("apps", "v1", "daemonsets", "DaemonSet", True),
    ("batch", "v1", "cronjobs", "CronJob", True),
    ("grove.io", "v1alpha1", "podcliques", "PodClique", True),
    ("grove.io", "v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup", True),
)


def node_names(context: typer.Context, incomplete: str) -> list[str]:
    """Nodes whose names begin so."""
    return _listed(incomplete, context.params, (_NODES,))


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """Queues whose names begin so."""
    return _listed(incomplete, context.params, (_QUEUES,))


def gang_names(context: typer.Context, incomplete: str) -> list[str]:
    """Gangs of the namespace whose names begin so."""
    return _listed(incomplete, context.params, (_GANGS,))


def names_with_reasons(context: typer.Context, incomplete: str) -> list[str]:
    """Pods, gangs and sets of the namespace whose names begin so; after `KIND/`, what has pods of
    that kind."""
    from kilonova.cli.owners import owner_kind

    typed, stroke, text = incomplete.partition("/")
    if not stroke:
        return _listed(incomplete, context.params, (_GANGS, _PODS, _WORKLOADS[0]))
    kind = {"pod": "pod", "podgang": "podgang"}.get(typed) or owner_kind(typed)
    places = [each for each in (_PODS, _GANGS, *_OWNERS) if each[3].lower() == kind]
    return [f"{typed}/{name}" for name in _listed(text, context.params, places)]


def workload_names(context: typer.Context, incomplete: str) -> list[str]:
    """Sets, Deployments, StatefulSets and Jobs of the namespace whose names begin so."""
    return _listed(incomplete, context.params, _WORKLOADS)


def namespace_names(context: typer.Context, incomplete: str) -> list[str]:
    """Namespaces whose names begin so."""
    return _listed(incomplete, context.params, (_NAMESPACES,))


def context_names(context: typer.Context, incomplete: str) -> list[str]:
    """Contexts of the kubeconfig whose names begin so; no cluster is asked."""
    from kilonova.kube import ConfigError
    from kilonova.kube.kubeconfig import kubeconfig_files, read_kubeconfig

    named = _path(context.params.get("kubeconfig"))
    with contextlib.suppress(ConfigError):
        contexts = read_kubeconfig([named] if named else kubeconfig_files()).contexts
        return _beginning(incomplete, contexts)
    return []


def _listed(text: str, options: dict[str, Any], places: Sequence[_Place]) -> list[str]:
    import asyncio

    from kilonova.cli.failure import CommandFailed
    from kilonova.kube import KubeError

    with contextlib.suppress(CommandFailed, KubeError, TimeoutError, OSError):
        return _beginning(text, asyncio.run(_names(options, places)))
    return []


async def _names(options: dict[str, Any], places: Sequence[_Place]) -> list[str]:
    import asyncio

    from kilonova.cli.clusters import cluster_meant, namespace_meant
    from kilonova.kube import Forbidden, NotFound, connect, plain

    context: str | None = options.get("context")
    kubeconfig, data = (_path(options.get(name)) for name in ("kubeconfig", "data"))
    meant = cluster_meant(kubeconfig, context, data)
    everywhere: bool = options.get("all_namespaces") or False
    namespace = None if everywhere else namespace_meant(options.get("namespace"), meant, context)
    names: list[str] = []
    async with asyncio.timeout(_PATIENCE), connect(meant, context) as client:
        for resource in (plain(*place) for place in places):
            # The cluster may not know all of our kinds, or not show them all to us.
            with contextlib.suppress(NotFound, Forbidden):
                listing = await client.list(resource, namespace)
                names += [each["metadata"]["name"] for each in listing.items]
    return names


def _beginning(text: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(text)})


def _path(value: object) -> Path | None:
    return None if value is None else Path(str(value))
