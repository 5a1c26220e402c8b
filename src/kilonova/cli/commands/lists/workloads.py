"""`kilonova workloads`: list workloads and their state."""

from typing import Annotated

import typer

from kilonova.cli.commands.name_completion import complete_workloads
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


def workloads(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Names.", autocompletion=complete_workloads),
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
    """List workloads and their state.

    Workloads are PodCliqueSets, GPUWorkloads, Deployments, StatefulSets and Jobs, with or without
    pods, and pods and gangs without an owner. A selector matches the labels of pods. PRICE is per
    hour, for the GPUs that the workload uses.

    \b
    Examples:
      kilonova workloads
      kilonova workloads -A --sort-by gpus
      kilonova workloads -n research -l app=llama -o wide
      kilonova workloads deployment/web -w
    """
    from kilonova.cli.lists.definitions import WORKLOADS
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
    show_list(WORKLOADS, options)
