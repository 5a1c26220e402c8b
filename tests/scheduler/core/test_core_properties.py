"""What must hold of every cluster, whatever happens to it."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.plan import Plan, Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.rooms import Rooms
from tests.scheduler.core import naive
from tests.scheduler.core import random_clusters as random
from tests.scheduler.core.waiting import waiting

NAMES = tuple(f"n{index}" for index in range(6))
POLICY = Policy(random.LEVELS, reserve_after=100.0)


class Story(RuleBasedStateMachine):
    """Nodes, queues and gangs come, change and go; now and then it is decided who gets a place."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.made = 0
        self.known: dict[str, Gang] = {}
        """All gangs that have not ended, with all of their members."""
        self.cluster = Cluster()
        self.planner = Planner(self.cluster, random.SCORING, POLICY)
        self.rooms = Rooms(self.cluster.snapshot, random.SCORING)

    @initialize(nodes=st.tuples(*(random.nodes(name) for name in NAMES[:4])), specs=random.queues())
    def begin(self, nodes: tuple[Node, ...], specs: list[QueueSpec]) -> None:
        for node in nodes:
            self.cluster.snapshot.put_node(node)
        self.replace_queues(specs)

    # What happens.

    @rule(node=st.sampled_from(NAMES).flatmap(random.nodes))
    def put_node(self, node: Node) -> None:
        self.cluster.snapshot.put_node(node)

    @rule(name=st.sampled_from(NAMES))
    def remove_node(self, name: str) -> None:
        snapshot = self.cluster.snapshot
        if name in snapshot:
            self.end_pods(list(snapshot.pods_on[snapshot.row(name)]))
            snapshot.remove_node(name)

    @rule(specs=random.queues(), budgets=st.tuples(st.integers(0, 2), st.integers(0, 6)))
    def change_queues(self, specs: list[QueueSpec], budgets: tuple[int, int]) -> None:
        self.replace_queues(specs)
        self.cluster.budgets = dict(zip(random.BUDGETS, budgets, strict=True))

    def replace_queues(self, specs: list[QueueSpec]) -> None:
        self.cluster.replace_queues(forest_of(specs))

    @rule(data=st.data(), count=st.integers(1, 4))
    def submit(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            name = f"g{self.made}"
            self.made += 1
            self.known[name] = data.draw(random.gangs(name, self.now))

    @rule(seconds=st.sampled_from((1.0, 40.0, 150.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.cluster.standing)
    @rule(data=st.data())
    def a_gang_ends(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.cluster.standing)))
        self.end_pods(list(self.cluster.standing[name].pods))
        del self.known[name]

    @precondition(lambda self: self.cluster.snapshot.bookings)
    @rule(data=st.data())
    def a_pod_dies(self, data: st.DataObject) -> None:
        self.end_pods([data.draw(st.sampled_from(sorted(self.cluster.snapshot.bookings)))])

    def end_pods(self, pods: list[str]) -> None:
        for booking in self.cluster.snapshot.release_all(pods):
            self.cluster.leave(booking.gang, [booking.pod])

    # What is decided.

    @rule()
    def plan(self) -> None:
        before = naive.facts(self.cluster)
        first = self.planner.plan(self.waiting(), self.now)
        assert naive.facts(self.cluster) == before
        assert self.planner.plan(self.waiting(), self.now) == first

    @rule()
    def decide(self) -> None:
        cluster, snapshot = self.cluster, self.cluster.snapshot
        other = naive.rebuilt(cluster)
        elsewhere = Planner(other, random.SCORING, POLICY).plan(self.waiting(), self.now)
        standing, used = cluster.save().standing, cluster.used.copy()
        budgets, booked = dict(cluster.budgets), dict(snapshot.bookings)
        guards = {pod: booking.member.budgets for pod, booking in booked.items()}
        wanted = self.waiting()
        plan = self.planner.decide(wanted, self.now)
        here, there = naive.told(snapshot, plan), naive.told(other.snapshot, elsewhere)
        assert here == there, (here, there)
        naive.check_evictions(standing, used, budgets, guards, plan, self.now)
        naive.check_limits(used, cluster.used, plan)
        for placement in plan.placements:
            naive.check_gang(snapshot, placement)
        new = [booking for placement in plan.placements for booking in placement.bookings]
        naive.check_new_bookings(snapshot, new)
        self.check_outcomes(wanted, plan, set(booked))

    def check_outcomes(self, wanted: list[Gang], plan: Plan, booked: set[str]) -> None:
        placed = {placement.gang.name for placement in plan.placements}
        refused = {refusal.gang.name for refusal in plan.refusals}
        assert not placed & refused
        assert placed | refused == {gang.name for gang in wanted}
        evicted = {pod for p in plan.placements for unit in p.evicted for pod in unit.pods}
        new = {booking.pod for p in plan.placements for booking in p.bookings}
        assert set(self.cluster.snapshot.bookings) == (booked - evicted) | new

    def waiting(self) -> list[Gang]:
        return waiting(self.known.values(), self.cluster)

    # What always holds.

    @invariant()
    def counts_are_true(self) -> None:
        naive.check_counts(self.cluster.snapshot)
        naive.check_queues(self.cluster)

    @rule(some=st.lists(st.sampled_from(random.SHAPES), min_size=1, max_size=6))
    def vectors_are_fresh(self, some: list[random.Shape]) -> None:
        """Vectors that were kept up to date equal new ones."""
        fresh = Rooms(self.cluster.snapshot, random.SCORING)
        for shape in some:
            np.testing.assert_array_equal(self.rooms.reasons(shape), fresh.reasons(shape))
            np.testing.assert_array_equal(self.rooms.room(shape), fresh.room(shape))
            np.testing.assert_array_equal(self.rooms.keys(shape), fresh.keys(shape))


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=120, stateful_step_count=12, deadline=None)
