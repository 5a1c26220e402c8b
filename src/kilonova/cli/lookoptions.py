"""Options of commands that look at a cluster, or at a snapshot of one."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from kilonova.cli.options import DATA_VARIABLE

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Kubeconfig of the cluster.  [default: KUBECONFIG, else ~/.kube/config, else that of "
        "the cluster that `kilonova up` runs]",
        dir_okay=False,
    ),
]
Context = Annotated[
    str | None, typer.Option(metavar="NAME", help="Its context, instead of the current one.")
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar=DATA_VARIABLE,
        help="Folder of a cluster that `kilonova up` runs.",
        file_okay=False,
    ),
]
Snapshot = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Look at a snapshot instead of a cluster.", dir_okay=False),
]
Output = Annotated[Literal["table", "json", "yaml"], typer.Option("--output", "-o", help="Form.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace.")]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The SchedulerConfiguration to decide by, as of `kilonova run scheduler`.",
        dir_okay=False,
    ),
]
