"""`kilonova fleet cordon`, `uncordon` and `evacuate`: which clusters get instances."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.api.json import JsonObject
from kilonova.component.command.flags import Context, Data, Kubeconfig
from kilonova.fleet.commands.name_completion import complete_clusters

Clusters = Annotated[
    list[str],
    typer.Argument(metavar="CLUSTER...", help="Clusters.", autocompletion=complete_clusters),
]


def cordon(
    clusters: Clusters,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Give clusters no further instances; those that they have stay.

    \b
    Example:
      kilonova fleet cordon eu-1
    """
    _change(clusters, {"cordoned": True}, "cordoned", kubeconfig, context, data)


def uncordon(
    clusters: Clusters,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Give clusters instances again, after they were cordoned or evacuated.

    \b
    Example:
      kilonova fleet uncordon eu-1
    """
    spec: JsonObject = {"cordoned": False, "evacuated": False}
    _change(clusters, spec, "uncordoned", kubeconfig, context, data)


def evacuate(
    clusters: Clusters,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print which instances would be moved.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Move the instances of clusters to others.

    An instance leaves its cluster when another one is ready elsewhere. Of a cluster that does not
    report, instances are replaced elsewhere at once, without waiting for spec.failover.after.

    \b
    Examples:
      kilonova fleet evacuate eu-1 --dry-run
      kilonova fleet evacuate eu-1
    """
    if dry_run:
        _print_evacuated(clusters, kubeconfig, context, data)
        return
    _change(clusters, {"evacuated": True}, "being evacuated", kubeconfig, context, data)


def _print_evacuated(
    clusters: list[str], kubeconfig: Path | None, context: str | None, data: Path | None
) -> None:
    from kilonova.component.command.cluster_selection import resolve_kubeconfig
    from kilonova.component.command.output.formats import pluralize
    from kilonova.fleet.commands.hub_access import list_clusters, list_deployments, run_on_hub
    from kilonova.kube import Client

    async def find(client: Client) -> None:
        known = {each.metadata.name for each in await list_clusters(client, clusters)}
        found = [
            (part.cluster, each.metadata, part.observed)
            for each in await list_deployments(client, None)
            for part in each.status.clusters
            if part.cluster in known and part.observed
        ]
        for cluster, metadata, observed in sorted(found, key=lambda each: each[0]):
            instances = pluralize(observed, "instance")
            name = f"{metadata.namespace}/{metadata.name}"
            typer.echo(f"cluster {cluster}: {instances} of {name} would be moved")
        for cluster in sorted(known - {cluster for cluster, _, _ in found}):
            typer.echo(f"cluster {cluster}: no instances would be moved")

    run_on_hub(resolve_kubeconfig(kubeconfig, context, data), context, find)


def _change(
    clusters: list[str],
    spec: JsonObject,
    done: str,
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
) -> None:
    from kilonova.component.command.cluster_selection import resolve_kubeconfig
    from kilonova.fleet.commands.hub_access import change_cluster, list_clusters, run_on_hub
    from kilonova.kube import Client

    async def change(client: Client) -> None:
        for each in await list_clusters(client, clusters):
            await change_cluster(client, each.metadata.name, spec)
            typer.echo(f"cluster {each.metadata.name} {done}")

    run_on_hub(resolve_kubeconfig(kubeconfig, context, data), context, change)
