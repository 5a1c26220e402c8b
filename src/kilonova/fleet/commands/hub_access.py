"""Reads and changes the objects of a hub for a command."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import typer

from kilonova.api.fleet import Cluster
from kilonova.api.inference_engine import Deployment
from kilonova.api.json import JsonObject
from kilonova.api.times import human_age, parse_time
from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.failure import CommandFailed
from kilonova.fleet.manager.resources import CLUSTERS, DEPLOYMENTS, RELEASES
from kilonova.kube import Client, KubeError, NotFound, connect

R = TypeVar("R")

_STALE_AFTER = timedelta(minutes=2)
"""A manager that leads writes more often, and soon says of a silent member that it is suspect."""


def run_on_hub(
    kubeconfig: Path | None, context: str | None, action: Callable[[Client], Awaitable[R]]
) -> R:
    """Run an action with a client; `CommandFailed` says what is wrong with the cluster. There is a
    warning for a hub that no manager writes to: nothing follows from changes there."""

    async def run() -> R:
        async with connect(kubeconfig, context) as client:
            result = await action(client)
            try:
                found = (await client.list(CLUSTERS)).items
            except KubeError:
                return result  # it may not be permitted, and is not what was asked for
            if warning := describe_staleness(found, datetime.now(UTC)):
                typer.echo(f"kilonova: {warning}", err=True)
            return result

    with translate_cluster_errors("work on", "; `kilonova doctor` lists missing permissions"):
        return asyncio.run(run())


def describe_staleness(clusters: Iterable[Cluster], now: datetime) -> str:
    """Why a hub seems to be that of a manager that does not lead; empty if it does not."""
    seen = [
        each.status.last_seen
        for each in clusters
        if each.status.health == "Healthy" and each.status.last_seen is not None
    ]
    latest = max(seen, key=parse_time, default=None)
    if latest is None or now - parse_time(latest) < _STALE_AFTER:
        return ""
    age = human_age(latest, now)
    return (
        f"no manager has written to this hub for {age}: if the manager of another hub leads "
        "(`kilonova fleet endpoint show URL` shows it), use that one, with --context"
    )


async def list_clusters(client: Client, names: Sequence[str] = ()) -> list[Cluster]:
    """The clusters, all or those named, by name; `CommandFailed` if one does not exist."""
    try:
        found = {each.metadata.name: each for each in (await client.list(CLUSTERS)).items}
    except NotFound:
        raise not_a_hub() from None
    for name in names:
        if name not in found:
            known = ", ".join(sorted(found)) or "none"
            raise CommandFailed(f"cluster {name} does not exist; the hub has: {known}")
    return [found[name] for name in sorted(names or found)]


async def list_deployments(client: Client, namespace: str | None) -> list[Deployment]:
    """The deployments of a namespace, or of all, by namespace and name."""
    try:
        found = (await client.list(DEPLOYMENTS, namespace)).items
    except NotFound:
        raise not_a_hub() from None
    return sorted(found, key=lambda each: (each.metadata.namespace, each.metadata.name))


async def get_deployment(client: Client, name: str, namespace: str) -> Deployment:
    """One deployment; `CommandFailed` if it does not exist."""
    for each in await list_deployments(client, namespace):
        if each.metadata.name == name:
            return each
    raise CommandFailed(
        f"Deployment {name} of the fleet does not exist in namespace {namespace}: "
        "`kilonova fleet status -A` lists all"
    )


async def list_release_names(client: Client, namespace: str) -> list[str]:
    """The releases of a namespace."""
    return sorted(each.metadata.name for each in (await client.list(RELEASES, namespace)).items)


async def change_cluster(client: Client, name: str, spec: JsonObject) -> None:
    """Change fields of a cluster's spec."""
    await client.patch(CLUSTERS, name, {"spec": spec})


async def change_deployment(client: Client, found: Deployment, spec: JsonObject) -> None:
    """Change fields of a deployment's spec, unless it has changed since it was read."""
    metadata = found.metadata
    body: JsonObject = {
        "metadata": {"resourceVersion": metadata.resource_version},
        "spec": spec,
    }
    await client.patch(DEPLOYMENTS, metadata.name, body, metadata.namespace)


def not_a_hub() -> CommandFailed:
    """The failure on a cluster that is no hub."""
    return CommandFailed(
        "this cluster is not the hub of a fleet: choose another with --context, or run "
        "`kilonova install --components fleet`"
    )
