"""`kilonova serve key`: API keys of a service."""

from typing import Annotated

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Namespace, Output
from kilonova.serving.commands.flags import ServiceName

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

Client = Annotated[
    str,
    typer.Argument(
        metavar="CLIENT", help="The client that has the key; limits.clients names clients."
    ),
]


@app.callback()
def key() -> None:
    """Make and revoke API keys.

    The cluster stores a digest of each key, in the Secret that spec.auth.apiKeys names. Gateways
    follow it within ten seconds.

    \b
    Examples:
      kilonova serve key create chat ada
      kilonova serve key list chat
      kilonova serve key revoke chat ada
    """


@app.command("create")
def create(
    name: ServiceName,
    client: Client,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Replace the key that the client has.")
    ] = False,
    require: Annotated[
        bool,
        typer.Option("--require", help="Let the service require keys, if it does not yet."),
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Make an API key for a client, and print it, this once.

    \b
    Examples:
      kilonova serve key create chat ada
      kilonova serve key create chat ada --rotate
    """
    from kilonova.serving.commands.cluster_access import ServiceCluster
    from kilonova.serving.commands.keys.api_keys import create_key

    cluster = ServiceCluster(kubeconfig, context, data, namespace)
    made = cluster.run(
        lambda access: create_key(
            access, name, cluster.namespace, client, rotate=rotate, require=require
        )
    )
    for note in made.notes:
        typer.echo(note, err=True)
    typer.echo(made.key)


@app.command("list")
def list_keys(
    name: ServiceName,
    namespace: Namespace = None,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """List the clients that have keys.

    \b
    Example:
      kilonova serve key list chat
    """
    from kilonova.component.command.output.formats import encode_as, format_table
    from kilonova.serving.commands.cluster_access import ServiceCluster
    from kilonova.serving.commands.keys.api_keys import list_clients

    cluster = ServiceCluster(kubeconfig, context, data, namespace)
    found = cluster.run(lambda access: list_clients(access, name, cluster.namespace))
    if output != "table":
        typer.echo(encode_as(found, output))
    elif found:
        rows = [(each.client, each.secret, each.digest or "invalid") for each in found]
        typer.echo(format_table(("CLIENT", "SECRET", "SHA-256"), rows))
    else:
        typer.echo("no keys", err=True)


@app.command("revoke")
def revoke(
    name: ServiceName,
    client: Client,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Revoke the key of a client: within ten seconds it is refused.

    \b
    Example:
      kilonova serve key revoke chat ada
    """
    from kilonova.serving.commands.cluster_access import ServiceCluster
    from kilonova.serving.commands.keys.api_keys import revoke_key

    cluster = ServiceCluster(kubeconfig, context, data, namespace)
    cluster.run(lambda access: revoke_key(access, name, cluster.namespace, client))
    typer.echo(f"the key of {client} is revoked: gateways refuse it within ten seconds")
