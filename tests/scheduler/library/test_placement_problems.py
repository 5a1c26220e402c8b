"""`why` reports unhealthy devices and nodes, and nodes on which a workload failed."""

from dataclasses import replace

import pytest

from kilonova.cli.why.answer_text import format_answer
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout, GpuShare
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Member, single_pod_gang
from kilonova.scheduler.core.model.nodes import Node, Taint
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.library.placement_report import report_placement
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot
from tests.scheduler.core.support.clusters import node, shape


def unhealthy_node(*, healthy: bool = True, taint: str = "") -> Node:
    layout = GpuLayout((Gpu(0, 80_000), Gpu(1, 80_000, healthy=healthy)))
    taints = (Taint(taint, "NoExecute"),) if taint else ()
    return replace(node("n0", gpus=2), layout=layout, taints=taints)


def cluster_snapshot(on: Node, *waiting: Gang) -> ClusterSnapshot:
    """A running pod with both GPUs of a node."""
    cluster = Cluster()
    row = cluster.snapshot.put_node(on)
    one = replace(single_pod_gang(Member("ns/p", shape(2))), name="pod/ns/p")
    [group] = one.groups
    pod_placement = PodPlacement(
        group.members[0], row, (GpuShare(0, 1000), GpuShare(1, 1000)), one.name
    )
    cluster.snapshot.add_pod(pod_placement)
    placed_group = replace(group, members=(), placed_members=group.members, placed_nodes=(on.name,))
    cluster.record_placed(replace(one, groups=(placed_group,)), [pod_placement], 0.0)
    return take_snapshot(cluster, waiting, [], PlannerPolicy(), 60.0)


@pytest.mark.parametrize(
    ("on", "problem"),
    [
        (unhealthy_node(), ""),
        (unhealthy_node(healthy=False), "device 1 is unhealthy"),
        (
            unhealthy_node(taint="node.kubernetes.io/unreachable"),
            "the node has the taint node.kubernetes.io/unreachable",
        ),
        (unhealthy_node(taint="example.com/own"), ""),
    ],
    ids=["healthy", "unhealthy device", "unreachable node", "user taint"],
)
def test_report_names_problems_of_a_placement(on: Node, problem: str) -> None:
    found = report_placement(cluster_snapshot(on), "ns", "p")
    assert found is not None
    assert [pod.problem for pod in found.pods] == [problem]
    assert (f"Problem of ns/p on n0: {problem}" in format_answer(found, 60.0)) == bool(problem)


def test_nodes_that_failed_a_workload_are_counted() -> None:
    careful = replace(shape(1), avoided_nodes=frozenset({"n0"}))
    pending_gang = replace(single_pod_gang(Member("ns/w", careful)), name="pod/ns/w")
    found = report_placement(cluster_snapshot(unhealthy_node(), pending_gang), "ns", "w")
    assert found is not None
    assert "1 node(s) avoided after failures of this workload" in format_answer(found, 60.0)
