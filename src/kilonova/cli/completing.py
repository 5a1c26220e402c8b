"""Names that the shell offers on Tab: those of the cluster, as far as it answers at once."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from kilonova.kube import Resource

_PATIENCE = 2.0


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """Queues whose names begin so."""
    from kilonova.scheduler.objects import QUEUES

    return _beginning(incomplete, context.params, [QUEUES], None)


def pod_and_gang_names(context: typer.Context, incomplete: str) -> list[str]:
    """Pods and gangs of the namespace whose names begin so."""
    from kilonova.scheduler.objects import GANGS, PODS

    namespace: str = context.params.get("namespace") or "default"
    return _beginning(incomplete, context.params, [GANGS, PODS], namespace)


def _beginning(
    text: str, options: dict[str, Any], resources: "list[Resource[Any]]", namespace: str | None
) -> list[str]:
    """Whoever presses Tab wants names or nothing, never an error."""
    import asyncio

    from kilonova.cli.failure import CommandFailed
    from kilonova.kube import KubeError

    with contextlib.suppress(CommandFailed, KubeError, TimeoutError, OSError):
        names = asyncio.run(_listed(options, resources, namespace))
        return sorted({name for name in names if name.startswith(text)})
    return []


async def _listed(
    options: dict[str, Any], resources: "list[Resource[Any]]", namespace: str | None
) -> list[str]:
    import asyncio

    from kilonova.cli.picturing import cluster_meant
    from kilonova.kube import connect

    context: str | None = options.get("context")
    kubeconfig, data = (_path(options.get(name)) for name in ("kubeconfig", "data"))
    meant = cluster_meant(kubeconfig, context, data)
    names: list[str] = []
    async with asyncio.timeout(_PATIENCE), connect(meant, context) as client:
        for resource in resources:
            names += [each.metadata.name for each in (await client.list(resource, namespace)).items]
    return names


def _path(value: object) -> Path | None:
    return None if value is None else Path(str(value))
