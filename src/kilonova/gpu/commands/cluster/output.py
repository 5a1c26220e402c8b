"""Reads the GPUs of a cluster for a command, and prints what it selects of them."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import typer

from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.command.cluster_selection import resolve_kubeconfig
from kilonova.component.command.output.format_names import OutputFormat
from kilonova.component.command.output.formats import encode_as, format_table
from kilonova.component.failure import CommandFailed
from kilonova.gpu.commands.cluster.gpus import ClusterView, read_cluster
from kilonova.kube import connect

V = TypeVar("V")


def load_cluster(
    nodes: Sequence[str], kubeconfig: Path | None, context: str | None, data: Path | None
) -> ClusterView:
    """The GPUs of a cluster; `CommandFailed` for a node without GPUs."""

    async def load() -> ClusterView:
        async with connect(resolve_kubeconfig(kubeconfig, context, data), context) as client:
            return await read_cluster(client, nodes)

    with translate_cluster_errors("read from", "; `kilonova doctor` lists missing permissions"):
        view = asyncio.run(load())
    for problem in view.problems:
        typer.echo(f"kilonova: {problem}", err=True)
    known = {each.node for each in view.gpus}
    missing = [each for each in nodes if each not in known]
    if missing:
        raise CommandFailed(f"node {missing[0]} does not exist, or publishes no GPUs")
    return view


def print_rows(
    rows: Sequence[V],
    header: Sequence[str],
    cells: Callable[[V], Sequence[str]],
    output: OutputFormat,
    empty: str,
) -> None:
    """Print values as a table, JSON or YAML."""
    if output != "table":
        typer.echo(encode_as(rows, output))
    elif rows:
        typer.echo(format_table(header, [cells(each) for each in rows]))
    else:
        typer.echo(empty, err=True)


def format_share(share: float | None) -> str:
    """`83%`; `-` if it is unknown."""
    return "-" if share is None else f"{round(100 * share)}%"


def format_amount(amount: float | None, unit: str) -> str:
    """`412W`; `-` if it is unknown."""
    return "-" if amount is None else f"{round(amount)}{unit}"
