"""The score of how well a pod fits, on the nodes of a snapshot."""

from collections import Counter

import numpy as np
import pytest

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.demand import Ask, Demand
from kilonova.scheduler.core.devices import Gpu, Layout
from kilonova.scheduler.core.fit import Fit, ask_of
from kilonova.scheduler.core.fragments import Largest, Left, Worth, score
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import GPU, Snapshot
from tests.scheduler.core.clusters import gang, group, node, shape, snapshot_of

GIB = 1 << 30


def modelled(name: str, model: str, gpus: int = 4, memory: int = 0) -> Node:
    layout = Layout(tuple(Gpu(index, memory, model) for index in range(gpus)))
    amounts = {"cpu": 64_000, "memory": 256 * GIB, "pods": 110, GPU: gpus}
    return Node(name, amounts, layout=layout)


def scores(snapshot: Snapshot, wanted: Shape, demand: Demand | None = None) -> list[float]:
    fit = Fit.of(snapshot, demand)
    return fit(snapshot, wanted, np.arange(snapshot.size)).tolist()


def place(snapshot: Snapshot, *shapes: Shape) -> list[str]:
    """Nodes that single pods get, one after the other."""
    placer = Placer(snapshot, Rooms(snapshot, Fit.of(snapshot)))
    found: list[str] = []
    for number, wanted in enumerate(shapes):
        bookings = placer.place(gang(f"g-{number}", group(f"g-{number}", 1, of=wanted)))
        assert bookings is not None
        found.append(snapshot.names[bookings[0].row])
    return found


def test_it_is_the_worth_of_what_the_snapshot_has_free() -> None:
    snapshot = snapshot_of(node("a", 2), node("b", 8), node("c", 0, 8_000))
    fit = Fit.of(snapshot, Demand.of({Ask(8_000, GIB, 1): 1}))
    worth = Worth(Demand.of({Ask(8_000, GIB, 1): 1}), Largest(64_000, 256 * GIB, 8))
    rows = np.array([0, 1])
    left = Left(snapshot.free[1, rows], snapshot.free[2, rows], snapshot.gpu_free[rows])
    wanted = shape()
    assert (
        fit(snapshot, wanted, rows).tolist()
        == score(worth.waste(ask_of(wanted), left, np.zeros(2))).tolist()
    )


def test_shares_meet_and_whole_nodes_stay_whole() -> None:
    snapshot = snapshot_of(node("a"), node("b"))
    half = shape(milli=500)
    assert place(snapshot, half, half, half, half, shape(8)) == ["a", "a", "a", "a", "b"]
    assert Counter(snapshot.gpu_free[0].tolist()) == {0: 2, 1000: 6}


def test_pods_without_gpus_leave_the_cpu_of_gpus_alone() -> None:
    snapshot = snapshot_of(node("a", 8), node("b", 0), node("c", 8))
    assert place(snapshot, shape(0, 16_000), shape(0, 16_000)) == ["b", "b"]


def test_a_model_that_others_cannot_do_without_is_left_to_them() -> None:
    snapshot = snapshot_of(modelled("a", "NVIDIA-A10"), modelled("b", "NVIDIA-H200"))
    demand = Demand.of({Ask(1000, GIB, 1): 1, Ask(1000, GIB, 1, 1000, frozenset({"a10"})): 1})
    first, second = scores(snapshot, shape(), demand)
    assert first < second


def test_a_share_told_in_memory_is_judged_by_the_devices_of_each_node() -> None:
    snapshot = snapshot_of(
        modelled("a", "A10", memory=24_000), modelled("b", "H200", memory=48_000)
    )
    wanted = Shape((("cpu", 1000),), GpuAsk(1, 0, memory=12_000))
    halves = Shape((("cpu", 1000),), GpuAsk(1, 500))
    quarters = Shape((("cpu", 1000),), GpuAsk(1, 250))
    assert scores(snapshot, wanted) == [
        scores(snapshot, halves)[0],
        scores(snapshot, quarters)[1],
    ]


def test_of_instances_only_cpu_and_memory_count() -> None:
    wanted = Shape((("cpu", 1000), ("memory", GIB)), GpuAsk(1, 1000, profile="1g.10gb"))
    assert ask_of(wanted) == Ask(1000, GIB)


def test_nodes_that_came_later_are_judged_too() -> None:
    snapshot = snapshot_of(node("a", 2))
    fit = Fit.of(snapshot)
    snapshot.put_node(modelled("b", "B200", gpus=16))
    found = fit(snapshot, shape(), np.array([0, 1]))
    assert ((found > 0) & (found < 100)).all()


@pytest.mark.parametrize("empty", [Snapshot(), snapshot_of(node("a", 0))])
def test_a_cluster_without_gpus_is_no_harm(empty: Snapshot) -> None:
    rows = np.arange(empty.size)
    assert len(Fit.of(empty)(empty, shape(0), rows)) == empty.size
