"""`kilonova fleet endpoint`: where the fleet's store is, who leads there, and how to change it."""

from typing import Annotated

import msgspec
import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Output

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def endpoint() -> None:
    """Show who leads a fleet, and change where its store is.

    \b
    Examples:
      kilonova fleet endpoint show s3://fleet/prod
      kilonova fleet endpoint set s3://fleet-eu/prod
      kilonova fleet endpoint reclaim s3://fleet/prod
    """


class StoreSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A store, and who leads there."""

    store: str
    leader: str
    """The holder of the lease; empty if it was released."""
    renewed: str
    epoch: str
    """Generation and term of the last leader."""
    moved_to: str
    members: tuple[str, ...]
    """The clusters that have reported there."""


@app.command("show")
def show(
    url: Annotated[str, typer.Argument(metavar="URL", help="The endpoint, or three.")],
    output: Output = "table",
) -> None:
    """Show who leads the fleet of a store.

    \b
    Example:
      kilonova fleet endpoint show s3://fleet/prod
    """
    import asyncio

    from kilonova.component.command.output.formats import encode_as
    from kilonova.component.failure import CommandFailed
    from kilonova.objectstore import ObjectStoreError

    try:
        found = asyncio.run(_read_store(url))
    except ObjectStoreError as error:
        raise CommandFailed(str(error)) from error
    if output != "table":
        typer.echo(encode_as(found, output))
        return
    typer.echo(f"store:    {found.store}")
    typer.echo(f"leader:   {found.leader or 'none'} (renewed {found.renewed or 'never'})")
    typer.echo(f"epoch:    {found.epoch}")
    typer.echo(f"members:  {', '.join(found.members) or 'none'}")
    if found.moved_to:
        typer.echo(f"replaced by {found.moved_to}")


async def _read_store(url: str) -> StoreSummary:
    from kilonova.fleet.documents import FLEET, OBSERVED
    from kilonova.fleet.store import format_epoch, open_fleet_store
    from kilonova.kube.election import LeaseUnavailable
    from kilonova.objectstore import Unavailable

    store = open_fleet_store(url)
    try:
        record = await store.read(FLEET)
        try:
            lease = await store.lease.read()
        except LeaseUnavailable as error:
            raise Unavailable(store.name, str(error)) from error
        reports = await store.read_all(OBSERVED, lambda error: None)
        return StoreSummary(
            store=store.name,
            leader=lease.record.holder if lease else "",
            renewed=lease.record.renewed if lease else "",
            epoch=format_epoch(record.document.epoch) if record else "none",
            moved_to=record.document.moved_to if record else "",
            members=tuple(each.document.cluster for each in reports),
        )
    finally:
        await store.close()


@app.command()
def reclaim(
    url: Annotated[str, typer.Argument(metavar="URL", help="The endpoint, or three.")],
) -> None:
    """Let managers lead from a store although another one has replaced it.

    They refuse to do so by themselves, since a manager that was left behind with the former
    endpoint must not take over. The next leader of the store begins a generation, so that members
    refuse what the other store's leader decides.

    \b
    Example:
      kilonova fleet endpoint reclaim s3://fleet/prod
    """
    import asyncio

    from kilonova.component.failure import CommandFailed
    from kilonova.objectstore import ObjectStoreError

    try:
        found = asyncio.run(_reclaim_store(url))
    except ObjectStoreError as error:
        raise CommandFailed(str(error)) from error
    if not found:
        raise CommandFailed(f"{url} has never had a leader: managers can use it as it is")
    typer.echo(f"managers may lead from {url} again")


async def _reclaim_store(url: str) -> bool:
    from kilonova.fleet.store import open_fleet_store, reclaim_store

    store = open_fleet_store(url)
    try:
        return await reclaim_store(store)
    finally:
        await store.close()


@app.command("set")
def change(
    url: Annotated[str, typer.Argument(metavar="URL", help="The endpoint, or three.")],
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of deploy/fleet and deploy/member.")
    ] = "kilonova-system",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Change the endpoint of the manager and of the agent that run in a cluster.

    They follow within a minute, when the mounted ConfigMap has changed, without a restart. Do this
    for every cluster; members go on with what they run until then.

    \b
    Example:
      kilonova fleet endpoint set s3://fleet-eu/prod --context eu-1
    """
    from kilonova.component.command.cluster_selection import resolve_kubeconfig
    from kilonova.component.failure import CommandFailed
    from kilonova.fleet.commands.hub_access import run_on_hub
    from kilonova.fleet.store import parse_endpoints
    from kilonova.kube import Client, NotFound, unstructured_resource
    from kilonova.objectstore import ObjectStoreError

    try:
        parse_endpoints(url)
    except ObjectStoreError as error:
        raise CommandFailed(str(error)) from error
    config_maps = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)
    names = ("kilonova-fleet-store", "kilonova-member-store")

    async def write(client: Client) -> list[str]:
        changed: list[str] = []
        for name in names:
            try:
                await client.patch(config_maps, name, {"data": {"endpoint": url}}, namespace)
            except NotFound:
                continue
            changed.append(name)
        return changed

    changed = run_on_hub(resolve_kubeconfig(kubeconfig, context, data), context, write)
    if not changed:
        raise CommandFailed(
            f"namespace {namespace} has neither ConfigMap {' nor '.join(names)}: is deploy/fleet "
            "or deploy/member applied to this cluster?"
        )
    for name in changed:
        typer.echo(f"ConfigMap {namespace}/{name} changed")
