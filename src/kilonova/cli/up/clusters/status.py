"""`kilonova status` of several clusters."""

from typing import assert_never

import msgspec

from kilonova.cli.up.clusters.directory import ClustersDirectory
from kilonova.cli.up.status import Status, StatusResult, find_status
from kilonova.component.command.output.format_names import OutputFormat
from kilonova.component.command.output.formats import encode_as, format_table


class ClusterState(msgspec.Struct, frozen=True, rename="camel"):
    """One of the clusters."""

    name: str
    """The name of its context."""
    region: str
    status: Status


class ClustersStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The output of `-o json`."""

    data: str
    kubeconfig: str
    running: bool
    """Whether any of them runs."""
    clusters: tuple[ClusterState, ...]


def find_clusters_status(directory: ClustersDirectory) -> tuple[ClustersStatus, list[str]]:
    """The state of each cluster, and the problems of those that do not answer."""
    results: dict[str, StatusResult] = {
        each.name: find_status(directory.data_of(each)) for each in directory.clusters
    }
    states = tuple(
        ClusterState(each.name, each.region, results[each.name].status)
        for each in directory.clusters
    )
    status = ClustersStatus(
        str(directory.path),
        str(directory.kubeconfig),
        any(each.status.running for each in states),
        states,
    )
    return status, [f"{name}: {each.problem}" for name, each in results.items() if each.problem]


def format_clusters_status(status: ClustersStatus, output_format: OutputFormat) -> str:
    """The status in an output format."""
    match output_format:
        case "json" | "yaml":
            return encode_as(status, output_format)
        case "table":
            rows = [_format_row(each) for each in status.clusters]
            header = ("CLUSTER", "REGION", "STATE", "NODES", "PODS", "API", "CONSOLE")
            table = format_table(header, rows)
            return f"{table}\n\nkubeconfig  {status.kubeconfig}\ndata        {status.data}"
        case _:
            assert_never(output_format)


def _format_row(cluster: ClusterState) -> tuple[str, ...]:
    found = cluster.status
    if not found.running:
        state = (
            "stopped"
            if found.stopped is None
            else found.stopped.reason.replace("requested", "stopped")
        )
        return (cluster.name, cluster.region, state, "-", "-", "-", "-")
    degraded = ", ".join(found.problems or {})
    return (
        cluster.name,
        cluster.region,
        f"degraded ({degraded})" if degraded else "running",
        "?" if found.nodes is None else f"{found.nodes.ready}/{found.nodes.total}",
        "?" if found.pods is None else str(found.pods.total),
        str(found.url),
        found.console or "off",
    )
