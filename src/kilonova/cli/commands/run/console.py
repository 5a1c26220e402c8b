"""The command `kilonova run console`."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.component.process.flags import Context, HealthPort, Kubeconfig, LogFormat


def console(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address on which the console listens.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Port of the console; 0 for any free."),
    ] = 7444,
    allow_actions: Annotated[
        bool,
        typer.Option(
            "--allow-actions",
            help="Allow everyone with the link to scale, restart, suspend, resume, cordon, drain "
            "and delete, with your permissions.",
        ),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the access token of the link; created if it does not exist.  "
            "[default: a new token at each start]",
            dir_okay=False,
        ),
    ] = None,
    health_port: HealthPort = None,
    log_format: LogFormat = None,
) -> None:
    """Serve the web console of a cluster, until SIGTERM or Ctrl-C.

    Everyone with the printed link sees what your kubeconfig is allowed to read. The console stores
    nothing, and several may run. `deploy/console` runs it inside of a cluster.

    \b
    Examples:
      kilonova run console
      kilonova run console --context production --port 0
      kilonova run console --allow-actions --token-file ~/.kilonova-console-token
    """
    from kilonova.cli.run.console import ConsoleOptions, run_console
    from kilonova.component.process.process import HEALTH_PORT, NAMESPACE

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
