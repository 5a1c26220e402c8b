"""`kilonova gpu mig rebalance`: which pods it lists, and which GPUs it leaves alone."""

import pytest

from kilonova.gpu.commands.cluster.gpus import ClusterGpu, ClusterSlice, ClusterView
from kilonova.gpu.commands.cluster.rebalance import RebalanceReport, plan_cluster
from kilonova.scheduler.core.gpu.rebalancing.plan import RebalanceSettings
from tests.catalog.mig_states import part

H100 = part("H100-80GB")


def view(**gpus: str) -> ClusterView:
    """Nodes with one GPU; `pod:1g.10gb@0 …`, `whole` (a pod has it), `broken`, `shared`."""
    found: list[ClusterGpu] = []
    slices: list[ClusterSlice] = []
    for node, text in gpus.items():
        holders: list[str] = []
        for word in text.split():
            pod, separator, place = word.partition(":")
            if separator:
                profile, _, start = place.partition("@")
                slices.append(ClusterSlice(node, 0, profile, int(start), "u", "Allocated", pod))
            elif word == "shared":
                slices.append(ClusterSlice(node, 0, "500", None, "", "Shared", "sharing"))
            if word != "broken":
                holders.append(pod)
        healthy = "broken" not in text
        found.append(ClusterGpu(node, 0, "u", "H100", 81559, healthy, "", True, (), tuple(holders)))
    return ClusterView(tuple(found), tuple(slices))


def plan(cluster: ClusterView, restart: float = 60) -> RebalanceReport:
    return plan_cluster(cluster, lambda gpu: H100, RebalanceSettings(), restart)


def test_fragmented_pod_is_listed_with_its_places() -> None:
    report = plan(view(a="x:1g.10gb@0", b="y:3g.40gb@4 z:2g.20gb@0"))
    assert [(each.pod, each.source, each.target) for each in report.moves] == [
        ("x", "a:0@0", "b:0@2")
    ]
    assert report.free_after > report.free_before
    assert report.benefit_seconds > report.cost_seconds


@pytest.mark.parametrize("other", ["whole", "broken y:3g.40gb@4", "shared"])
def test_gpus_in_use_otherwise_are_left_alone(other: str) -> None:
    report = plan(view(a="x:1g.10gb@6", b=other))
    assert not any("b" in each.target or "b" in each.source for each in report.moves)


def test_nothing_is_listed_where_restarts_cost_more() -> None:
    cluster = view(a="x:1g.10gb@0", b="y:3g.40gb@4 z:2g.20gb@0")
    assert not plan(cluster, restart=100_000).moves
