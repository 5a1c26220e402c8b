"""The score of a placement: 1 where pods could not stand nearer to each other."""

from dataclasses import replace

import pytest

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.claims import ClaimAsk, Option
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.optimality import placement_score
from kilonova.scheduler.core.peers import Peers
from kilonova.scheduler.core.snapshot import Booking
from tests.scheduler.core.clusters import BLOCK, RACK, node, shape, snapshot_of

NODES = [node(f"n{index}", rack=f"r{index // 2}", block=f"b{index // 4}") for index in range(8)]


def score(
    where: dict[int, int], of: Shape | None = None, nodes: list[Node] | None = None
) -> float | None:
    """Of so many pods on each row."""
    snapshot = snapshot_of(*(nodes or NODES))
    rows = [row for row, pods in where.items() for _ in range(pods)]
    bookings = [Booking(Member(f"ns/p{rank}", of or shape()), row) for rank, row in enumerate(rows)]
    return placement_score(snapshot, bookings, (BLOCK, RACK))


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
def test_the_fewer_domains_and_nodes_the_better(where: dict[int, int], expected: float) -> None:
    assert score(where) == expected


def test_parts_of_devices_count_as_parts() -> None:
    half = shape(1, milli=500)
    assert score({0: 16}, half) == 1.0
    assert score({0: 8, 1: 8}, half) == pytest.approx(2.5 / 3, abs=1e-3)


def test_nodes_that_are_not_allowed_do_not_count() -> None:
    large = node("large", gpus=16, rack="r9", block="b9")
    pods = {0: 8, 1: 8}
    assert score(pods, nodes=[*NODES, large]) == pytest.approx(2.5 / 3, abs=1e-3)
    assert score(pods, replace(shape(), avoided=frozenset({"large"})), [*NODES, large]) == 1.0


def test_levels_without_labels_do_not_count() -> None:
    assert score({0: 8, 1: 1}, nodes=[node("a"), node("b")]) == 1.0


@pytest.mark.parametrize(
    "of",
    [
        replace(shape(), peers=Peers()),
        replace(shape(), claims=(ClaimAsk(((Option("gpu"),),)),)),
        replace(shape(0), gpu=GpuAsk(1, 0, memory=1000)),
        replace(shape(0), gpu=GpuAsk(1, 0, "1g.10gb")),
    ],
    ids=["rules", "claims", "memory", "instances"],
)
def test_nobody_can_tell_of_some(of: Shape) -> None:
    assert score({0: 1}, of) is None


def test_nothing_has_no_score() -> None:
    assert score({}) is None
