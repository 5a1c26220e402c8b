"""The placement score: 1 where pods could not be placed more compactly."""

from dataclasses import replace

import pytest

from kilonova.scheduler.core.dra.claims import ClaimRequest, DeviceRequestOption
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_affinity import PodAffinityRules
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.topology.placement_score import compute_placement_score
from tests.scheduler.core.support.clusters import BLOCK, RACK, node, shape, snapshot_of

NODES = [node(f"n{index}", rack=f"r{index // 2}", block=f"b{index // 4}") for index in range(8)]


def score(
    where: dict[int, int], of: Shape | None = None, nodes: list[Node] | None = None
) -> float | None:
    """The score with a number of pods on each row."""
    snapshot = snapshot_of(*(nodes or NODES))
    rows = [row for row, pods in where.items() for _ in range(pods)]
    placements = [
        PodPlacement(Member(f"ns/p{rank}", of or shape()), row) for rank, row in enumerate(rows)
    ]
    return compute_placement_score(snapshot, placements, (BLOCK, RACK))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({0: 1}, 1.0),
        ({0: 8}, 1.0),
        ({0: 8, 1: 8}, 1.0),
        ({0: 8, 1: 8, 2: 1}, 1.0),
        ({0: 4, 1: 4}, pytest.approx((1 + 1 + 1 / 2) / 3, abs=1e-3)),
        ({0: 4, 2: 4}, pytest.approx((1 + 1 / 2 + 1 / 2) / 3, abs=1e-3)),
        ({0: 4, 4: 4}, 0.5),
        ({0: 1, 1: 1, 2: 1, 4: 1}, pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3, abs=1e-3)),
    ],
)
def test_score_by_number_of_domains_and_nodes(where: dict[int, int], expected: float) -> None:
    assert score(where) == expected


def test_gpu_shares_count_fractionally() -> None:
    half = shape(1, milli=500)
    assert score({0: 16}, half) == 1.0
    assert score({0: 8, 1: 8}, half) == pytest.approx(2.5 / 3, abs=1e-3)


def test_infeasible_nodes_do_not_count() -> None:
    large = node("large", gpus=16, rack="r9", block="b9")
    pods = {0: 8, 1: 8}
    assert score(pods, nodes=[*NODES, large]) == pytest.approx(2.5 / 3, abs=1e-3)
    assert score(pods, replace(shape(), avoided_nodes=frozenset({"large"})), [*NODES, large]) == 1.0


def test_levels_without_labels_do_not_count() -> None:
    assert score({0: 8, 1: 1}, nodes=[node("a"), node("b")]) == 1.0


@pytest.mark.parametrize(
    "of",
    [
        replace(shape(), pod_rules=PodAffinityRules()),
        replace(shape(), claims=(ClaimRequest(((DeviceRequestOption("gpu"),),)),)),
        replace(shape(0), gpu=GpuRequest(1, 0, memory=1000)),
        replace(shape(0), gpu=GpuRequest(1, 0, "1g.10gb")),
    ],
    ids=["rules", "claims", "memory", "instances"],
)
def test_no_score_for_incomparable_shapes(of: Shape) -> None:
    assert score({0: 1}, of) is None


def test_no_score_without_placements() -> None:
    assert score({}) is None
