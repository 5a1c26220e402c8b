"""The migration budget, and which replacement gets which held slot."""

from dataclasses import replace

import pytest

from kilonova.scheduler.consolidation.capacity_holds import (
    CapacityHold,
    CapacityHolds,
    hold_for_migration,
    match_replacements,
)
from kilonova.scheduler.consolidation.limits import StartedMigration, remaining_budget
from kilonova.scheduler.core.consolidation.migration import GangMigration, MigrationBudget
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.settings import ConsolidationLimits
from tests.scheduler.core.support.clusters import node, shape

NOW = 10_000.0
LIMITS = ConsolidationLimits(max_concurrent=4, max_per_hour=5, max_lost_gpu_seconds=1000.0)


@pytest.mark.parametrize(
    ("limits", "completed", "in_progress", "pods_arrived", "budget"),
    [
        (LIMITS, [], 0, 0, MigrationBudget(4, 1000.0)),
        (LIMITS, [], 3, 0, MigrationBudget(1, 1000.0)),
        (LIMITS, [StartedMigration(NOW - 10, 100.0)] * 3, 0, 0, MigrationBudget(2, 700.0)),
        (LIMITS, [StartedMigration(NOW - 3600, 100.0)] * 3, 0, 0, MigrationBudget(4, 1000.0)),
        (LIMITS, [StartedMigration(NOW - 10, 600.0)] * 6, 0, 0, MigrationBudget(0, 0.0)),
        (replace(LIMITS, min_arrivals_per_migration=100), [], 0, 99, MigrationBudget(0, 1000.0)),
        (replace(LIMITS, min_arrivals_per_migration=100), [], 0, 250, MigrationBudget(2, 1000.0)),
        (
            replace(LIMITS, min_arrivals_per_migration=100),
            [StartedMigration(0.0, 1.0)],
            0,
            250,
            MigrationBudget(1, 1000.0),
        ),
    ],
)
def test_remaining_consolidation_budget(
    limits: ConsolidationLimits,
    completed: list[StartedMigration],
    in_progress: int,
    pods_arrived: int,
    budget: MigrationBudget,
) -> None:
    assert remaining_budget(limits, completed, in_progress, pods_arrived, NOW) == budget


def test_replacement_gets_the_slot_of_its_group_and_shape() -> None:
    hold = build_hold()
    back = gang({"a": ["ns/a9"], "b": ["ns/b9"]})
    found = match_replacements(back, hold)
    assert found is not None
    assert [(seat.migrated_pod, member.pod) for seat, member in found] == [
        ("ns/a0", "ns/a9"),
        ("ns/b0", "ns/b9"),
    ]


def test_gang_with_changed_requests_gets_no_slot() -> None:
    back = gang({"a": ["ns/a9"], "b": ["ns/b9"]}, gpus=2)
    assert match_replacements(back, build_hold()) is None


def test_surplus_pod_without_a_slot_does_not_fail_the_match() -> None:
    back = gang({"a": ["ns/a9", "ns/a8"], "b": ["ns/b9"]}, minimum=1)
    found = match_replacements(back, build_hold())
    assert found is not None
    assert len(found) == 2


def test_held_capacity_counts_in_the_queue_until_handed_over() -> None:
    cluster = Cluster()
    cluster.snapshot.put_node(node("n0", gpus=2))
    holds, hold = CapacityHolds(cluster), build_hold()
    holds.add(hold, NOW)
    assert cluster.used.amounts_of("default")["nvidia.com/gpu"] == 2000
    back = gang({"a": ["ns/a9"], "b": ["ns/b9"]})
    placement = holds.hand_over(back, hold, NOW)
    assert placement is not None
    assert sorted(cluster.snapshot.placements) == ["ns/a9", "ns/b9"]
    assert cluster.used.amounts_of("default")["nvidia.com/gpu"] == 2000
    assert cluster.running_gangs.keys() == {"ns/g"}
    assert len(holds) == 0


def test_hold_on_an_unschedulable_node_is_dropped() -> None:
    cluster = Cluster()
    cluster.snapshot.put_node(node("n0", gpus=2))
    holds, hold = CapacityHolds(cluster), build_hold()
    holds.add(hold, NOW)
    cluster.snapshot.put_node(node("n0", gpus=1))
    back = gang({"a": ["ns/a9"], "b": ["ns/b9"]})
    assert holds.hand_over(back, hold, NOW) is None
    assert cluster.snapshot.placements == {}
    assert cluster.running_gangs == {}


def build_hold() -> CapacityHold:
    """A hold on the first node for a gang of two groups with one pod each."""
    before = gang({"a": ["ns/a0"], "b": ["ns/b0"]})
    members = [member for group in before.groups for member in group.members]
    pod_placements = tuple(PodPlacement(member, 0, (), before.name) for member in members)
    return hold_for_migration(GangMigration(before, pod_placements, pod_placements, 0.0))


def gang(groups: dict[str, list[str]], *, gpus: int = 1, minimum: int | None = None) -> Gang:
    return Gang(
        "ns/g",
        tuple(
            Group(
                name,
                tuple(Member(pod, shape(gpus)) for pod in pods),
                len(pods) if minimum is None else minimum,
            )
            for name, pods in groups.items()
        ),
    )
