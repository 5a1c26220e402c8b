"""`kilonova nodes`: what nodes there are, and how much of their GPUs is held."""

from typing import Annotated

import typer

from kilonova.cli.completing import node_names
from kilonova.cli.lookoptions import (
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
        typer.Argument(metavar="[NAME]...", help="Only these.", autocompletion=node_names),
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
    """List nodes, and how many of their GPUs are held.

    Prices are list prices of one GPU for an hour, unless the node says its own.

    \b
    Examples:
      kilonova nodes
      kilonova nodes -o wide --sort-by gpus
      kilonova nodes -l kilonova.dev/rack=h100-rack-0 -w
      kilonova nodes -o json | jq '.[] | select(.gpusHeld < .gpus) | .name'
    """
    from kilonova.cli.kindsoflists import NODES
    from kilonova.cli.listing import Asked, show

    asked = Asked(
        names=names or (),
        selector=selector,
        sort_by=sort_by,
        watch=watch,
        headers=not no_headers,
        form=output,
        kubeconfig=kubeconfig,
        context=context,
        data=data,
    )
    show(NODES, asked)
