"""`kilonova gangs`: which gangs there are, and why those wait that do."""

from typing import Annotated

import typer

from kilonova.cli.completing import gang_names
from kilonova.cli.lookoptions import (
    AllNamespaces,
    Context,
    Data,
    Kubeconfig,
    ListOutput,
    Namespace,
    NoHeaders,
    Selector,
    SortBy,
    Watch,
)


def gangs(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Only these.", autocompletion=gang_names),
    ] = None,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    sort_by: SortBy = "",
    watch: Watch = False,
    output: ListOutput = "table",
    no_headers: NoHeaders = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """List gangs, and why those wait that do.

    `kilonova why NAME` tells more of one that waits, and what would let it in.

    \b
    Examples:
      kilonova gangs
      kilonova gangs -A -w
      kilonova gangs -n research -o wide --sort-by age
      kilonova gangs -o name | xargs -n 1 kilonova why
    """
    from kilonova.cli.kindsoflists import GANGS
    from kilonova.cli.listing import Asked, show

    asked = Asked(
        names=names or (),
        namespace=namespace,
        everywhere=all_namespaces,
        selector=selector,
        sort_by=sort_by,
        watch=watch,
        headers=not no_headers,
        form=output,
        kubeconfig=kubeconfig,
        context=context,
        data=data,
    )
    show(GANGS, asked)
