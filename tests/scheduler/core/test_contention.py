"""Capacity that a change makes may go to another pending gang, which is ahead in the queue."""

from random import Random

from kilonova.scheduler.core.explaining import Explanation, explain
from kilonova.scheduler.core.explaining.changes import AddNodes, Free, Wait
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.snapshot import GPU
from tests.scheduler.core.clusters import BLOCK, RACK, node, shape, tight
from tests.scheduler.core.refused import POLICY, cluster_of, done, job, racked


def explained_among(cluster_nodes: int, pending: list[Gang], *running: Gang) -> Explanation:
    """Why the last of some pending gangs waits, among all of them."""
    cluster = cluster_of(racked(cluster_nodes), running=running)
    plan = Planner(cluster, tight, POLICY).decide(pending, 10.0)
    refusal = next(each for each in plan.refusals if each.gang.name == pending[-1].name)
    refused = [each.gang for each in plan.refusals]
    return explain(cluster, tight, POLICY, refusal.gang, refusal.why, 10.0, None, refused)


def test_the_gang_that_is_ahead_is_named() -> None:
    running = job("a", 2, shape(8), duration=100.0, priority=9)
    ahead, waiting = job("ahead", 1, shape(8), priority=5), job("x", 1, shape(8))
    found = explained_among(2, [ahead, waiting], running)
    assert {each.change.kind: each.taken_by for each in found.changes} == {
        "AddNodes": ("ahead",),
        "Free": ("ahead",),
        "Wait": (),
    }
    assert "(but gang ahead, which is ahead in the queue, would take it first)" in found.message


def test_a_change_that_nobody_else_takes_comes_before_a_smaller_one() -> None:
    running = job("a", 8, duration=100.0, priority=9)
    ahead, waiting = job("ahead", 2, priority=5), job("x", 2)
    found = explained_among(1, [ahead, waiting], running)
    assert [(each.change.kind, each.size, each.taken_by) for each in found.changes[:2]] == [
        ("AddNodes", 8, ()),
        ("Free", 2, ("ahead",)),
    ]


def test_the_expected_start_is_a_bound_where_others_are_ahead() -> None:
    running = job("a", 1, shape(8), duration=100.0, priority=9)
    ahead, waiting = job("ahead", 1, shape(8), priority=5), job("x", 1, shape(8))
    found = explained_among(1, [ahead, waiting], running)
    assert found.changes[-1].taken_by == ("ahead",)
    assert "Expected start: not before 1970-01-01T00:02:00Z." in found.message


def test_a_raised_limit_may_serve_another_gang_of_the_queue() -> None:
    queues = (QueueSpec("team", limit={GPU: 2000}),)
    cluster = cluster_of(racked(1), queues, [job("a", 2, queue="team", priority=9)])
    pending = [job("ahead", 2, queue="team", priority=5), job("x", 2, queue="team")]
    plan = Planner(cluster, tight, POLICY).decide(pending, 10.0)
    found = explain(cluster, tight, POLICY, pending[1], plan.refusals[1].why, 10.0, None, pending)
    assert found.changes[0].change.kind == "RaiseLimits"
    assert found.changes[0].taken_by == ("ahead",)


def test_what_is_said_about_others_is_what_happens() -> None:
    policy = Policy((BLOCK, RACK), evicts=False, reserve_after=1e9)
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
        plan = Planner(cluster, tight, policy).decide(pending, 10.0)
        refused = [each.gang for each in plan.refusals]
        for refusal in plan.refusals:
            found = explain(cluster, tight, policy, refusal.gang, refusal.why, 10.0, None, refused)
            for proposal in found.changes:
                if not isinstance(proposal.change, Free | AddNodes | Wait):
                    continue
                after = cluster.copy()
                _, now = done(proposal.change, after, (), refusal.gang, 10.0)
                placements = Planner(after, tight, policy).decide(refused, now).placements
                placed = [each.gang.name for each in placements]
                if refusal.gang.name in placed:
                    assert proposal.taken_by == ()
                    free += 1
                else:
                    assert proposal.taken_by == tuple(placed) != ()
                    taken += 1
    assert taken > 20
    assert free > 20
