"""`kilonova gangs`: list PodGangs and why pending ones are pending."""

from typing import Annotated

import typer

from kilonova.cli.commands.name_completion import complete_gangs
from kilonova.component.command.flags import (
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
        typer.Argument(metavar="[NAME]...", help="Names.", autocompletion=complete_gangs),
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
    """List gangs, and why pending ones are pending.

    `kilonova why NAME` explains a pending gang in full, and what change would let it be scheduled.

    \b
    Examples:
      kilonova gangs
      kilonova gangs -A -w
      kilonova gangs -n research -o wide --sort-by age
      kilonova gangs -o name | xargs -n 1 kilonova why
    """
    from kilonova.cli.lists.definitions import GANGS
    from kilonova.cli.lists.resource_list import ListFlags, show_list

    options = ListFlags(
        names=names or (),
        namespace=namespace,
        all_namespaces=all_namespaces,
        selector=selector,
        sort_by=sort_by,
        watch=watch,
        headers=not no_headers,
        output_format=output,
        kubeconfig=kubeconfig,
        context=context,
        data=data,
    )
    show_list(GANGS, options)
