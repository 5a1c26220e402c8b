"""`kilonova fleet clusters`: the members of a fleet."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Output


class ClusterSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A member."""

    name: str
    region: str
    health: str
    state: str
    """Schedulable, Cordoned or Evacuated."""
    instances: int
    ready: int
    nodes: int | None
    accelerators: tuple[str, ...]
    """`64 of 512 nvidia.com/gpu free`."""
    last_seen: str | None
    reason: str


_HEADER = (
    "NAME",
    "REGION",
    "HEALTH",
    "STATE",
    "INSTANCES",
    "READY",
    "NODES",
    "ACCELERATORS",
    "LAST SEEN",
    "REASON",
)


def clusters(
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """List the clusters of the fleet: whether they report, and what they have.

    \b
    Examples:
      kilonova fleet clusters
      kilonova fleet clusters -o json
    """
    from kilonova.component.command.cluster_selection import resolve_kubeconfig
    from kilonova.fleet.commands.hub_access import list_clusters, run_on_hub

    resolved = resolve_kubeconfig(kubeconfig, context, data)
    found = run_on_hub(resolved, context, list_clusters)
    print_clusters([summarise(each) for each in found], output)


def print_clusters(rows: Sequence[ClusterSummary], output: Output) -> None:
    """Print members."""
    from kilonova.api.times import human_age
    from kilonova.component.command.output.formats import encode_as, format_table

    if output != "table":
        typer.echo(encode_as(rows, output))
        return
    if not rows:
        typer.echo("no clusters", err=True)
        return
    now = datetime.now(UTC)
    cells = [
        (
            each.name,
            each.region or "-",
            each.health,
            each.state,
            str(each.instances),
            str(each.ready),
            "-" if each.nodes is None else str(each.nodes),
            ", ".join(each.accelerators) or "-",
            "never" if each.last_seen is None else human_age(each.last_seen, now),
            each.reason or "-",
        )
        for each in rows
    ]
    typer.echo(format_table(_HEADER, cells))


def summarise(cluster: object) -> ClusterSummary:
    """A member as a row."""
    from kilonova.api.fleet import Cluster

    assert isinstance(cluster, Cluster)
    spec, status = cluster.spec, cluster.status
    state = "Evacuated" if spec.evacuated else "Cordoned" if spec.cordoned else "Schedulable"
    return ClusterSummary(
        name=cluster.metadata.name,
        region=spec.region,
        health=status.health,
        state=state,
        instances=status.instances,
        ready=status.ready_instances,
        nodes=status.nodes,
        accelerators=tuple(
            f"{each.free} of {each.total} {each.resource} free" for each in status.accelerators
        ),
        last_seen=status.last_seen,
        reason=status.reason,
    )
