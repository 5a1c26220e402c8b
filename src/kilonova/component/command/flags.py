"""Flags of commands that read a cluster, or a snapshot of one."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.component.command.data_directory import DATA_VARIABLE
from kilonova.component.command.name_completion import complete_contexts, complete_namespaces
from kilonova.component.command.output.format_names import ListFormat, OutputFormat

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Kubeconfig of the cluster.  [default: KUBECONFIG, else ~/.kube/config, else the "
        "running cluster of `kilonova up`]",
        dir_okay=False,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Context, instead of the current one.",
        autocompletion=complete_contexts,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar=DATA_VARIABLE,
        help="Data directory of a running cluster of `kilonova up`.",
        file_okay=False,
    ),
]
Snapshot = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Read a snapshot instead of a cluster.", dir_okay=False),
]
Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="Output format.")]
ListOutput = Annotated[ListFormat, typer.Option("--output", "-o", help="Output format.")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Namespace.  [default: that of the context]",
        autocompletion=complete_namespaces,
    ),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="List objects of all namespaces.")
]
Selector = Annotated[
    str,
    typer.Option(
        "--selector", "-l", metavar="LABELS", help="Label selector, such as 'app=web,tier!=x'."
    ),
]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="After listing, watch for changes until Ctrl-C.")
]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Do not print column headers.")]
SortBy = Annotated[
    str,
    typer.Option(
        metavar="COLUMN", help="Sort by a column of the wide table: numbers descending, text A–Z."
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="SchedulerConfiguration to schedule with, as for `kilonova run scheduler`.",
        dir_okay=False,
    ),
]
