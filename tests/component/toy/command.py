"""The command `kilonova greetings`."""

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig


def greetings(kubeconfig: Kubeconfig = None, context: Context = None, data: Data = None) -> None:
    """List greetings.

    \b
    Examples:
      kilonova greetings
      kilonova greetings --context lab
    """
    import asyncio

    from kilonova.component.cluster_errors import translate_cluster_errors
    from kilonova.component.command.cluster_selection import resolve_kubeconfig
    from kilonova.kube import connect
    from tests.component.toy.kind import GREETINGS

    async def list_messages() -> list[str]:
        file = resolve_kubeconfig(kubeconfig, context, data)
        with translate_cluster_errors("read from"):
            async with connect(file, context) as client:
                return [each.status.message for each in (await client.list(GREETINGS)).items]

    for message in asyncio.run(list_messages()):
        typer.echo(message)
