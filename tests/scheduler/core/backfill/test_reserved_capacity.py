"""Reserved capacity: only gangs that name the reservation use it, and none of it is used twice."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.backfill.reserved_capacity import (
    is_within_reserved,
    subtract_consumers,
)
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support import random_clusters as random
from tests.scheduler.core.support import reference_model
from tests.scheduler.core.support.clusters import gang, group, node, shape, tight

RESERVATION = "rsv/ns/night"


def build_cluster(*nodes: Node, limit: int | None = None) -> tuple[Cluster, Planner]:
    spec = QueueSpec("default", limit={} if limit is None else {GPU: limit * 1000})
    cluster = Cluster(build_queue_forest([spec]))
    for each in nodes:
        cluster.snapshot.put_node(each)
    return cluster, Planner(cluster, tight, PlannerPolicy())


def place_reservation(
    planner: Planner, pods: int, gpus: int = 4, cpu: int = 1000, memory: int = 1
) -> GangPlacement:
    wanted = gang(RESERVATION, group("kept", pods, of=_shape(gpus, cpu, memory)))
    (placement,) = planner.schedule([replace(wanted, preemptible=False)], 0.0).placements
    return placement


def gang_with_reservation(name: str, pods: int, gpus: int = 4, **facts: object) -> Gang:
    return replace(gang(name, group(name, pods, of=shape(gpus))), reservation=RESERVATION, **facts)


def test_other_gangs_do_not_use_reserved_capacity() -> None:
    _, planner = build_cluster(node("a"))
    place_reservation(planner, 2)
    plan = planner.schedule([gang("other", group("other", 1))], 1.0)
    assert [unschedulable.gang.name for unschedulable in plan.unschedulable] == ["other"]


def test_gang_naming_reservation_uses_its_devices() -> None:
    cluster, planner = build_cluster(node("a"), node("b"))
    kept = place_reservation(planner, 1)
    (placement,) = planner.schedule([gang_with_reservation("mine", 1)], 1.0).placements
    assert placement.pods[0].row == kept.pods[0].row
    assert placement.pods[0].devices == kept.pods[0].devices
    assert RESERVATION not in cluster.running_gangs


def test_unused_reserved_capacity_stays_reserved() -> None:
    cluster, planner = build_cluster(node("a"))
    place_reservation(planner, 2)
    planner.schedule([gang_with_reservation("mine", 1, gpus=1)], 1.0)
    assert cluster.snapshot.free[cluster.snapshot.column(GPU), 0] == 0
    left = [cluster.snapshot.placements[pod] for pod in cluster.running_gangs[RESERVATION].pods]
    assert sum(len(placement.devices) for placement in left) == 7


def test_reserved_capacity_is_unchanged_when_gang_does_not_fit() -> None:
    cluster, planner = build_cluster(node("a"))
    place_reservation(planner, 2)
    before = reference_model.facts(cluster)
    plan = planner.schedule([gang_with_reservation("mine", 3)], 1.0)
    assert [unschedulable.gang.name for unschedulable in plan.unschedulable] == ["mine"]
    assert reference_model.facts(cluster) == before


def test_gang_larger_than_reservation_uses_free_capacity_too() -> None:
    cluster, planner = build_cluster(node("a"), node("b"))
    place_reservation(planner, 2)
    (placement,) = planner.schedule([gang_with_reservation("mine", 4)], 1.0).placements
    assert Counter(pod_placement.row for pod_placement in placement.pods) == {0: 2, 1: 2}
    assert RESERVATION not in cluster.running_gangs


def test_reserved_capacity_is_charged_once() -> None:
    cluster, planner = build_cluster(node("a"), limit=8)
    place_reservation(planner, 2)
    assert cluster.used.amounts_of("default")[GPU] == 8000
    planner.schedule([gang_with_reservation("mine", 2)], 1.0)
    assert cluster.used.amounts_of("default")[GPU] == 8000


def test_reserved_capacity_is_not_preempted() -> None:
    _, planner = build_cluster(node("a"))
    place_reservation(planner, 2)
    other = replace(gang("other", group("other", 1)), priority=1000)
    assert planner.schedule([other], 1.0).placements == ()


def test_gang_takes_over_nodes_of_its_predecessor() -> None:
    cluster, planner = build_cluster(node("a"), node("b"), node("c"))
    wanted = replace(gang("new", group("new", 2, of=shape(4))), previous_nodes=("b", "gone"))
    (placement,) = planner.schedule([wanted], 1.0).placements
    names = {cluster.snapshot.names[pod_placement.row] for pod_placement in placement.pods}
    assert names == {"b"}


def test_consumer_within_reserved_amounts_is_within_reservation() -> None:
    capacity = [_placement("kept", 0, 4, (0, 1, 2, 3), cpu=4000, memory=2)]
    assert is_within_reserved(
        capacity, [_placement("a", 0, 2, (0, 1)), _placement("b", 0, 2, (2, 3))]
    )
    assert not is_within_reserved(capacity, [_placement("a", 0, 2, (3, 4))])
    assert not is_within_reserved(capacity, [_placement("a", 1, 1, (0,))])
    assert not is_within_reserved(capacity, [_placement("a", 0, 1, (0,), cpu=5000)])


def test_several_small_pods_use_one_large_reserved_slot() -> None:
    cluster, planner = build_cluster(node("a"), node("b"))
    place_reservation(planner, 1, gpus=8, cpu=8000, memory=8)
    (placement,) = planner.schedule([gang_with_reservation("mine", 8, gpus=1)], 1.0).placements
    assert {pod_placement.row for pod_placement in placement.pods} == {0}
    assert cluster.used.amounts_of("default")[GPU] == 8000


def test_rest_of_gpu_share_stays_reserved() -> None:
    half = PodPlacement(Member("kept", shape(1, milli=500)), 0, (GpuShare(2, 500),), RESERVATION)
    user = PodPlacement(Member("user", shape(1, milli=300)), 0, (GpuShare(2, 300),))
    (left,) = subtract_consumers([half], [user])
    assert left.devices == (GpuShare(2, 200),)


def _placement(
    pod: str, row: int, gpus: int, devices: tuple[int, ...], cpu: int = 0, memory: int = 1
) -> PodPlacement:
    return PodPlacement(
        Member(pod, _shape(gpus, cpu, memory)), row, tuple(map(GpuShare, devices)), pod
    )


def _shape(gpus: int, cpu: int, memory: int) -> Shape:
    requests = {"cpu": cpu, "memory": memory << 30, "pods": 1, GPU: gpus}
    return Shape(tuple(sorted(requests.items())), GpuRequest(gpus))


@settings(max_examples=limit_examples(60), deadline=None)
@given(
    nodes=st.tuples(*(random.nodes(f"n{index}") for index in range(4))),
    specs=random.queues(),
    kept=st.tuples(*(random.gangs(f"rsv/ns/r{index}") for index in range(2))),
    data=st.data(),
)
def test_no_double_allocation_and_no_foreign_pods_in_reserved_capacity(
    nodes: tuple[Node, ...],
    specs: list[QueueSpec],
    kept: tuple[Gang, ...],
    data: st.DataObject,
) -> None:
    cluster = Cluster(build_queue_forest(specs))
    for each in nodes:
        cluster.snapshot.put_node(each)
    planner = Planner(cluster, random.SCORING, PlannerPolicy(random.LEVELS, reserve_after=100.0))
    holding = planner.schedule([replace(each, preemptible=False) for each in kept], 0.0)
    feasibility = {each.gang.name: list(each.pods) for each in holding.placements}
    users: dict[str, list[PodPlacement]] = {name: [] for name in feasibility}
    for cycle in range(3):
        coming: list[Gang] = []
        for index in range(3):
            capacity = data.draw(st.sampled_from(("", *feasibility, "rsv/ns/unheard-of")))
            one = data.draw(random.gangs(f"g{cycle}{index}", 150.0 * cycle))
            coming.append(
                replace(one, reservation=capacity, preemptible=one.preemptible and not capacity)
            )
        plan = planner.schedule(coming, 150.0 * cycle)
        reference_model.check_counts(cluster.snapshot)
        reference_model.check_queues(cluster)
        new = [pod_placement for placement in plan.placements for pod_placement in placement.pods]
        reference_model.check_new_placements(cluster.snapshot, new)
        for placement in plan.placements:
            assert not {unit.gang for unit in placement.victims} & feasibility.keys()
            users.get(placement.gang.reservation, []).extend(placement.pods)
        for name, capacity in feasibility.items():
            _check_reserved(cluster, name, capacity, users[name])


def _check_reserved(
    cluster: Cluster, name: str, reserved: list[PodPlacement], consumers: list[PodPlacement]
) -> None:
    """Reserved capacity is still reserved, or used by a gang that names the reservation."""
    running_gang = cluster.running_gangs.get(name)
    left = [cluster.snapshot.placements[pod] for pod in running_gang.pods] if running_gang else []
    for row in {placement.row for placement in reserved}:
        had, has = _amounts(reserved, row), _amounts([*left, *consumers], row)
        assert all(has[each] >= amount for each, amount in had.items()), (had, has)
        milli, masks = reference_model.devices_on(each for each in reserved if each.row == row)
        now, slices = reference_model.devices_on(
            each for each in [*left, *consumers] if each.row == row
        )
        for index, mask in masks.items():
            assert now[index] or slices[index] & mask == mask
        assert all(now[index] or slices[index] for index in milli)


def _amounts(placements: list[PodPlacement], row: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for placement in placements:
        if placement.row == row:
            total.update({name: n for name, n in placement.shape.requests if name != GPU})
    return total
