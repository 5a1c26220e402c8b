"""Capacity that a change frees may go to another pending gang, which is ahead in the queue."""

from random import Random

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.explain import Explanation, explain
from kilonova.scheduler.core.explain.changes.change import AddNodes, FreeCapacity, Wait
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.support.clusters import BLOCK, RACK, node, shape, tight
from tests.scheduler.core.support.unschedulable_gangs import (
    POLICY,
    apply_change,
    cluster_of,
    job,
    rack_nodes,
)


def explained_among(cluster_nodes: int, pending: list[Gang], *running: Gang) -> Explanation:
    """Explains the last of some pending gangs, among all of them."""
    cluster = cluster_of(rack_nodes(cluster_nodes), running=running)
    plan = Planner(cluster, tight, POLICY).schedule(pending, 10.0)
    unschedulable = next(each for each in plan.unschedulable if each.gang.name == pending[-1].name)
    refused = [each.gang for each in plan.unschedulable]
    return explain(
        cluster, tight, POLICY, unschedulable.gang, unschedulable.reason, 10.0, None, refused
    )


def test_gang_ahead_in_queue_is_named() -> None:
    running = job("a", 2, shape(8), duration=100.0, priority=9)
    ahead, pending = job("ahead", 1, shape(8), priority=5), job("x", 1, shape(8))
    found = explained_among(2, [ahead, pending], running)
    assert {each.change.kind: each.taken_by for each in found.changes} == {
        "AddNodes": ("ahead",),
        "FreeCapacity": ("ahead",),
        "Wait": (),
    }
    assert "(but gang ahead, which is ahead in the queue, would take it first)" in found.message


def test_uncontended_change_precedes_smaller_contended_one() -> None:
    running = job("a", 8, duration=100.0, priority=9)
    ahead, pending = job("ahead", 2, priority=5), job("x", 2)
    found = explained_among(1, [ahead, pending], running)
    assert [(each.change.kind, each.cost, each.taken_by) for each in found.changes[:2]] == [
        ("AddNodes", 8, ()),
        ("FreeCapacity", 2, ("ahead",)),
    ]


def test_expected_start_is_lower_bound_when_others_are_ahead() -> None:
    running = job("a", 1, shape(8), duration=100.0, priority=9)
    ahead, pending = job("ahead", 1, shape(8), priority=5), job("x", 1, shape(8))
    found = explained_among(1, [ahead, pending], running)
    assert found.changes[-1].taken_by == ("ahead",)
    assert "Expected start: not before 1970-01-01T00:02:00Z." in found.message


def test_raised_limit_may_serve_another_gang() -> None:
    queues = (QueueSpec("team", limit={GPU: 2000}),)
    cluster = cluster_of(rack_nodes(1), queues, [job("a", 2, queue="team", priority=9)])
    pending = [job("ahead", 2, queue="team", priority=5), job("x", 2, queue="team")]
    plan = Planner(cluster, tight, POLICY).schedule(pending, 10.0)
    found = explain(
        cluster, tight, POLICY, pending[1], plan.unschedulable[1].reason, 10.0, None, pending
    )
    assert found.changes[0].change.kind == "RaiseLimits"
    assert found.changes[0].taken_by == ("ahead",)


def test_reported_contention_matches_scheduling() -> None:
    policy = PlannerPolicy((BLOCK, RACK), preemption_enabled=False, reserve_after=1e9)
    taken = free = 0
    for seed in range(150):
        dice = Random(seed)
        shapes = (shape(1), shape(2), shape(4))
        nodes = [node(f"n{index}", dice.choice((2, 4))) for index in range(dice.randint(1, 3))]
        running = [job(f"r{each}", 1, dice.choice(shapes)) for each in range(dice.randint(1, 5))]
        pending = [
            job(f"p{each}", dice.randint(1, 2), dice.choice(shapes), priority=dice.randint(0, 2))
            for each in range(3)
        ]
        cluster = cluster_of(nodes, running=running)
        plan = Planner(cluster, tight, policy).schedule(pending, 10.0)
        refused = [each.gang for each in plan.unschedulable]
        for unschedulable in plan.unschedulable:
            found = explain(
                cluster,
                tight,
                policy,
                unschedulable.gang,
                unschedulable.reason,
                10.0,
                None,
                refused,
            )
            for proposal in found.changes:
                if not isinstance(proposal.change, FreeCapacity | AddNodes | Wait):
                    continue
                after = cluster.copy()
                _, now = apply_change(proposal.change, after, (), unschedulable.gang, 10.0)
                placements = Planner(after, tight, policy).schedule(refused, now).placements
                placed = [each.gang.name for each in placements]
                if unschedulable.gang.name in placed:
                    assert proposal.taken_by == ()
                    free += 1
                else:
                    assert proposal.taken_by == tuple(placed) != ()
                    taken += 1
    assert taken > 20
    assert free > 20
