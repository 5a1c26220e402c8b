"""`kilonova run console` as typed."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.cli.runoptions import Context, HealthPort, Kubeconfig, LogFormat


def console(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address on which pages are served.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Its port; 0 takes a free one."),
    ] = 7444,
    allow_actions: Annotated[
        bool,
        typer.Option(
            "--allow-actions",
            help="Let who has the link scale, restart, suspend, resume, cordon, drain and delete, "
            "with your rights.",
        ),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the token that the link holds; made if it is not there.  [default: a "
            "new token at each start]",
            dir_okay=False,
        ),
    ] = None,
    health_port: HealthPort = None,
    log_format: LogFormat = None,
) -> None:
    """Serve the web page on a cluster, until SIGTERM or Ctrl-C.

    It shows what your kubeconfig lets you see, to whoever has the link that is printed. It keeps
    nothing, and several may run. `deploy/console` runs it inside of a cluster.

    \b
    Examples:
      kilonova run console
      kilonova run console --context production --port 0
      kilonova run console --allow-actions --token-file ~/.kilonova-console-token
    """
    from kilonova.cli.consoleprocess import ConsoleOptions, run_console
    from kilonova.cli.process import HEALTH_PORT, NAMESPACE

    run_console(
        ConsoleOptions(
            kubeconfig=kubeconfig,
            context=context,
            namespace=NAMESPACE,
            health_port=HEALTH_PORT if health_port is None else health_port,
            election=None,
            log_format=log_format,
            host=host,
            port=port,
            allow_actions=allow_actions,
            token_file=token_file,
        )
    )
