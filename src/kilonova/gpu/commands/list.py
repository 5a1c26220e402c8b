"""`kilonova gpu list`: the GPUs of a cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Output

if TYPE_CHECKING:
    from kilonova.gpu.commands.cluster.gpus import ClusterGpu

_HEADER = (
    *("NODE", "GPU", "MODEL", "HEALTH", "MEMORY", "UTIL", "POWER", "TEMP", "MIG", "PODS", "UUID"),
)


def list_gpus(
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", help="Nodes; all without one.")
    ] = None,
    unhealthy: Annotated[bool, typer.Option("--unhealthy", help="Only unhealthy GPUs.")] = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """List the GPUs of a cluster: health, utilisation, MIG instances, and the pods that have them.

    \b
    Examples:
      kilonova gpu list
      kilonova gpu list h100-0 -o json
      kilonova gpu list --unhealthy
    """
    from kilonova.gpu.commands.cluster.output import load_cluster, print_rows

    view = load_cluster(nodes or (), kubeconfig, context, data)
    rows = [each for each in view.gpus if not unhealthy or not each.healthy]
    empty = "no unhealthy GPUs" if unhealthy else "no node publishes GPUs"
    print_rows(rows, _HEADER, _cells, output, empty)


def _cells(gpu: "ClusterGpu") -> tuple[str, ...]:
    from kilonova.gpu.commands.cluster.output import format_amount, format_share

    used = "-" if gpu.memory_used_mib is None else f"{gpu.memory_used_mib >> 10}"
    mig = ",".join(gpu.mig_instances) if gpu.mig_instances else "on" if gpu.mig_enabled else "-"
    return (
        gpu.node,
        str(gpu.index),
        gpu.model or "-",
        "Healthy" if gpu.healthy else gpu.reason or "Unhealthy",
        f"{used}/{gpu.memory_mib >> 10}Gi",
        format_share(gpu.utilisation),
        format_amount(gpu.power_watts, "W"),
        format_amount(gpu.temperature_celsius, "C"),
        mig,
        ",".join(gpu.holders) or "-",
        gpu.uuid or "-",
    )
