"""Shell completion of object names, read from the cluster with a short timeout.

Every error means no completions: the shell would print an error into the command line.
"""

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

_TIMEOUT_SECONDS = 2.0

ResourceTuple = tuple[str, str, str, str, bool]
"""A resource: group, version, plural, kind, and whether it is namespaced."""

_NAMESPACES: ResourceTuple = ("", "v1", "namespaces", "Namespace", False)


def complete_namespaces(context: typer.Context, incomplete: str) -> list[str]:
    """Names of namespaces with this prefix."""
    return complete_names(incomplete, context.params, (_NAMESPACES,))


def complete_contexts(context: typer.Context, incomplete: str) -> list[str]:
    """Names of contexts of the kubeconfig with this prefix; sends no request."""
    from kilonova.kube import ConfigError
    from kilonova.kube.client.config.kubeconfig import default_kubeconfig_files, read_kubeconfig

    kubeconfig = _to_path(context.params.get("kubeconfig"))
    with contextlib.suppress(ConfigError):
        files = [kubeconfig] if kubeconfig else default_kubeconfig_files()
        contexts = read_kubeconfig(files).contexts
        return _filter_by_prefix(incomplete, contexts)
    return []


def complete_names(
    prefix: str, options: dict[str, Any], resources: Sequence[ResourceTuple]
) -> list[str]:
    """Names of objects with this prefix, on the cluster that the options of a command select."""
    import asyncio

    from kilonova.component.failure import CommandFailed
    from kilonova.kube import KubeError

    with contextlib.suppress(CommandFailed, KubeError, TimeoutError, OSError):
        return _filter_by_prefix(prefix, asyncio.run(_fetch_names(options, resources)))
    return []


async def _fetch_names(options: dict[str, Any], resources: Sequence[ResourceTuple]) -> list[str]:
    import asyncio

    from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
    from kilonova.kube import Forbidden, NotFound, connect, unstructured_resource

    context: str | None = options.get("context")
    kubeconfig, data = (_to_path(options.get(name)) for name in ("kubeconfig", "data"))
    resolved = resolve_kubeconfig(kubeconfig, context, data)
    namespace = None
    if not options.get("all_namespaces"):
        namespace = resolve_namespace(options.get("namespace"), resolved, context)
    names: list[str] = []
    async with asyncio.timeout(_TIMEOUT_SECONDS), connect(resolved, context) as client:
        for resource in (unstructured_resource(*each) for each in resources):
            # The cluster may not serve all kinds, or not let this user list them.
            with contextlib.suppress(NotFound, Forbidden):
                listing = await client.list(resource, namespace)
                names += [each["metadata"]["name"] for each in listing.items]
    return names


def _filter_by_prefix(prefix: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(prefix)})


def _to_path(value: object) -> Path | None:
    return None if value is None else Path(str(value))
