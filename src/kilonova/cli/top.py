"""`kilonova top`: a cluster as it is now, in a terminal."""

from typing import Annotated

import typer

from kilonova.cli.completing import namespace_names
from kilonova.cli.lookoptions import Context, Data, Kubeconfig


def top(
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Workloads of this namespace alone.  [default: all]",
            autocompletion=namespace_names,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one picture, and end.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Watch GPUs, workloads and queues live, in the terminal.

    Nodes come with who holds their GPUs, workloads with why they wait. Every cell is a GPU, in the
    colour of the workload that holds it: full, half as high where only a part of it is held, a dot
    where it is free. Keys: tab or arrows for the page, / to filter, s to sort, w to wrap lines that
    are too long, up and down to scroll, q to leave. All namespaces unless -n names one; nodes show
    all that is on them even so. --once prints lines whole, however long.

    \b
    Examples:
      kilonova top
      kilonova top -n research
      kilonova top --once | head -20
    """
    import asyncio
    import sys

    from kilonova.cli.clusters import cluster_meant
    from kilonova.cli.reasons import explained
    from kilonova.cli.toplive import live, print_once

    meant = cluster_meant(kubeconfig, context, data)
    seen = sys.stdin.isatty() and sys.stdout.isatty()
    with explained("look", "; whoever looks must be able to list nodes and pods"):
        if once or not seen:
            asyncio.run(print_once(meant, context, namespace))
            if not once:
                typer.echo("This is no terminal: that was one picture.", err=True)
        else:
            asyncio.run(live(meant, context, namespace))
