"""Options of commands that look at a cluster, or at a snapshot of one."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from kilonova.cli.completing import context_names, namespace_names
from kilonova.cli.options import DATA_VARIABLE

Form = Literal["table", "wide", "json", "yaml", "name"]
"""How lists are printed."""

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
    str | None,
    typer.Option(
        metavar="NAME",
        help="Its context, instead of the current one.",
        autocompletion=context_names,
    ),
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
ListOutput = Annotated[Form, typer.Option("--output", "-o", help="Form.")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Namespace.  [default: that of the context]",
        autocompletion=namespace_names,
    ),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Look in all namespaces.")
]
Selector = Annotated[
    str,
    typer.Option(
        "--selector", "-l", metavar="LABELS", help="Only those with labels as in 'app=web,tier!=x'."
    ),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on showing changes, until Ctrl-C.")]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Leave out the titles of columns.")]
SortBy = Annotated[
    str,
    typer.Option(
        metavar="COLUMN", help="Order by a column of the wide table, largest number or A first."
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The SchedulerConfiguration to decide by, as of `kilonova run scheduler`.",
        dir_okay=False,
    ),
]
