"""`kilonova top`: a live view of a cluster in the terminal."""

from typing import Annotated

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig
from kilonova.component.command.name_completion import complete_namespaces


def top(
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Show only workloads of this namespace.  [default: all]",
            autocompletion=complete_namespaces,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Watch nodes, workloads and queues live in the terminal.

    Nodes show which workload uses each GPU, workloads why they are pending. A cell is a GPU in the
    colour of the workload that uses it: full height if it uses all of it, half height for a part,
    a dot if it is free. Keys: tab or arrows switch pages, / filters, s sorts, w wraps long lines,
    up and down scroll, q quits. With -n, nodes still show the workloads of all namespaces. --once
    prints long lines in full.

    \b
    Examples:
      kilonova top
      kilonova top -n research
      kilonova top --once | head -20
    """
    import asyncio
    import sys

    from kilonova.cli.top.live_display import print_once, run_live
    from kilonova.component.cluster_errors import translate_cluster_errors
    from kilonova.component.command.cluster_selection import resolve_kubeconfig

    resolved = resolve_kubeconfig(kubeconfig, context, data)
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    with translate_cluster_errors("read from", "; listing nodes and pods must be allowed"):
        if once or not interactive:
            asyncio.run(print_once(resolved, context, namespace))
            if not once:
                typer.echo("Not a terminal: printed one frame.", err=True)
        else:
            asyncio.run(run_live(resolved, context, namespace))
