"""Shell completion of domains and levels of the topology.

Read from the snapshot or the cluster that the options of the command select, with a short timeout;
every error means no completions.
"""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

_TIMEOUT_SECONDS = 2.0


def complete_domains(context: typer.Context, incomplete: str) -> list[str]:
    """Names of zones, blocks and racks with this prefix; after a slash, paths."""
    from kilonova.scheduler.library.topology_levels import (
        domain_path,
        find_topology_levels,
        format_domain,
    )

    nodes = list(_read_labels(context.params))
    levels = find_topology_levels(nodes)
    paths = [domain_path(labels, levels) for labels in nodes]
    prefixes = {format_domain(path[: end + 1]) for path in paths for end in range(len(levels))}
    names = prefixes if "/" in incomplete else {name for path in paths for name in path}
    return sorted(name for name in names if name and name.startswith(incomplete))


def complete_levels(context: typer.Context, incomplete: str) -> list[str]:
    """Levels that nodes have with this prefix, finest first."""
    from kilonova.instances.fit.picture import list_details
    from kilonova.scheduler.library.topology_levels import find_topology_levels

    levels = list_details(find_topology_levels(_read_labels(context.params)))
    return [each for each in levels if each.startswith(incomplete)]


def _read_labels(options: dict[str, Any]) -> Iterable[Mapping[str, str]]:
    """The labels of all nodes."""
    import asyncio

    from kilonova.component.failure import CommandFailed
    from kilonova.kube import KubeError
    from kilonova.scheduler.snapshot_source import read_snapshot_file

    with contextlib.suppress(CommandFailed, KubeError, TimeoutError, OSError):
        if options.get("snapshot"):
            snapshot = read_snapshot_file(Path(str(options["snapshot"])))
            return [node.labels for node in snapshot.nodes]
        return asyncio.run(_list_labels(options))
    return []


async def _list_labels(options: dict[str, Any]) -> list[Mapping[str, str]]:
    import asyncio

    from kilonova.component.command.cluster_selection import resolve_kubeconfig
    from kilonova.instances.resources import NODES
    from kilonova.kube import connect

    context: str | None = options.get("context")
    kubeconfig, data = (
        Path(str(options[name])) if options.get(name) else None for name in ("kubeconfig", "data")
    )
    resolved = resolve_kubeconfig(kubeconfig, context, data)
    async with asyncio.timeout(_TIMEOUT_SECONDS), connect(resolved, context) as client:
        return [node.metadata.labels for node in (await client.list(NODES)).items]
