"""`kilonova nodes`: list nodes and how many of their GPUs are in use."""

from typing import Annotated

import typer

from kilonova.cli.commands.name_completion import complete_nodes
from kilonova.component.command.flags import (
    Context,
    Data,
    Kubeconfig,
    ListOutput,
    NoHeaders,
    Selector,
    SortBy,
    Watch,
)


def nodes(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Names.", autocompletion=complete_nodes),
    ] = None,
    selector: Selector = "",
    sort_by: SortBy = "",
    watch: Watch = False,
    output: ListOutput = "table",
    no_headers: NoHeaders = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """List nodes and how many of their GPUs are in use.

    PRICE is what one GPU costs per hour, NODE-PRICE the whole node: by the node's annotations,
    else by the catalog (`kilonova catalog prices`).

    \b
    Examples:
      kilonova nodes
      kilonova nodes -o wide --sort-by gpus
      kilonova nodes -l kilonova.dev/rack=h100-rack-0 -w
      kilonova nodes -o json | jq '.[] | select(.gpusAllocated < .gpus) | .name'
    """
    from kilonova.cli.lists.definitions import NODES
    from kilonova.cli.lists.resource_list import ListFlags, show_list

    options = ListFlags(
        names=names or (),
        selector=selector,
        sort_by=sort_by,
        watch=watch,
        headers=not no_headers,
        output_format=output,
        kubeconfig=kubeconfig,
        context=context,
        data=data,
    )
    show_list(NODES, options)
