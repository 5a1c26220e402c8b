"""`kilonova gpu slices`: the MIG instances and shares of a cluster's GPUs."""

from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Output

if TYPE_CHECKING:
    from kilonova.gpu.commands.cluster.gpus import ClusterSlice

_HEADER = ("NODE", "GPU", "SLICE", "START", "STATE", "MEMORY", "UTIL", "POD", "UUID")


def list_slices(
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", help="Nodes; all without one.")
    ] = None,
    free: Annotated[bool, typer.Option("--free", help="Only instances without a pod.")] = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """List MIG instances and shares of GPUs, and the pods that have them.

    An instance is Creating while a pod waits for it, Allocated to a pod, or Available.

    \b
    Examples:
      kilonova gpu slices
      kilonova gpu slices a100-0 --free -o json
    """
    from kilonova.gpu.commands.cluster.output import load_cluster, print_rows

    view = load_cluster(nodes or (), kubeconfig, context, data)
    rows = [each for each in view.slices if not free or each.state == "Available"]
    print_rows(rows, _HEADER, _cells, output, "no MIG instances and no shares of GPUs")


def _cells(item: "ClusterSlice") -> tuple[str, ...]:
    from kilonova.gpu.commands.cluster.output import format_share

    used = "-" if item.memory_used_mib is None else f"{item.memory_used_mib / 1024:.1f}"
    memory = "-" if item.memory_gb is None else f"{used}/{item.memory_gb}G"
    return (
        item.node,
        str(item.gpu),
        item.profile,
        "-" if item.start is None else str(item.start),
        item.state,
        memory,
        format_share(item.utilisation),
        item.holder or "-",
        item.uuid or "-",
    )
