"""`kilonova workloads`: what people run, and how it is."""

from typing import Annotated

import typer

from kilonova.cli.completing import workload_names
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


def workloads(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Only these.", autocompletion=workload_names),
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
    """List what people run, and how it is.

    That is sets, Deployments, StatefulSets and Jobs, also those without pods, and lone pods, each
    with how its pods are. A selector chooses by the labels of pods. The price is that of the GPUs
    which a workload holds, per hour.

    \b
    Examples:
      kilonova workloads
      kilonova workloads -A --sort-by gpus
      kilonova workloads -n research -l app=llama -o wide
      kilonova workloads deployment/web -w
    """
    from kilonova.cli.kindsoflists import WORKLOADS
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
    show(WORKLOADS, asked)
