"""Invariants of a cluster under random changes."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kilonova.scheduler.core.decisions import Plan
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support import random_clusters as random
from tests.scheduler.core.support import reference_model
from tests.scheduler.core.support.pending_gangs import list_pending

NAMES = tuple(f"n{index}" for index in range(6))
POLICY = PlannerPolicy(random.LEVELS, reserve_after=100.0)


class ClusterStateMachine(RuleBasedStateMachine):
    """Nodes, queues and gangs are added, changed and removed; now and then a cycle runs."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.made = 0
        self.known: dict[str, Gang] = {}
        """All gangs that have not ended, with all of their members."""
        self.cluster = Cluster()
        self.planner = Planner(self.cluster, random.SCORING, POLICY)
        self.feasibility = FeasibilityCache(self.cluster.snapshot, random.SCORING)

    @initialize(nodes=st.tuples(*(random.nodes(name) for name in NAMES[:4])), specs=random.queues())
    def begin(self, nodes: tuple[Node, ...], specs: list[QueueSpec]) -> None:
        for node in nodes:
            self.cluster.snapshot.put_node(node)
        self.replace_queues(specs)

    # Changes

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
        self.cluster.replace_queues(build_queue_forest(specs))

    @rule(data=st.data(), count=st.integers(1, 4))
    def submit(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            name = f"g{self.made}"
            self.made += 1
            self.known[name] = data.draw(random.gangs(name, self.now))

    @rule(seconds=st.sampled_from((1.0, 40.0, 150.0)))
    def advance_time(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.cluster.running_gangs)
    @rule(data=st.data())
    def end_gang(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.cluster.running_gangs)))
        self.end_pods(list(self.cluster.running_gangs[name].pods))
        del self.known[name]

    @precondition(lambda self: self.cluster.snapshot.placements)
    @rule(data=st.data())
    def end_pod(self, data: st.DataObject) -> None:
        self.end_pods([data.draw(st.sampled_from(sorted(self.cluster.snapshot.placements)))])

    def end_pods(self, pods: list[str]) -> None:
        for placement in self.cluster.snapshot.remove_pods(pods):
            self.cluster.record_removed(placement.gang, [placement.pod])

    # Scheduling

    @rule()
    def plan(self) -> None:
        before = reference_model.facts(self.cluster)
        first = self.planner.plan(self.pending(), self.now)
        assert reference_model.facts(self.cluster) == before
        assert self.planner.plan(self.pending(), self.now) == first

    @rule()
    def schedule(self) -> None:
        cluster, snapshot = self.cluster, self.cluster.snapshot
        other = reference_model.rebuild_cluster(cluster)
        elsewhere = Planner(other, random.SCORING, POLICY).plan(self.pending(), self.now)
        running_gang, used = cluster.save().running_gangs, cluster.used.copy()
        budgets, booked = dict(cluster.budgets), dict(snapshot.placements)
        guards = {pod: pod_placement.member.budgets for pod, pod_placement in booked.items()}
        wanted = self.pending()
        plan = self.planner.schedule(wanted, self.now)
        here, there = (
            reference_model.summarize_plan(snapshot, plan),
            reference_model.summarize_plan(other.snapshot, elsewhere),
        )
        assert here == there, (here, there)
        reference_model.check_evictions(running_gang, used, budgets, guards, plan, self.now)
        reference_model.check_limits(used, cluster.used, plan)
        for placement in plan.placements:
            reference_model.check_gang(snapshot, placement)
        new = [pod_placement for placement in plan.placements for pod_placement in placement.pods]
        reference_model.check_new_placements(snapshot, new)
        self.check_outcomes(wanted, plan, set(booked))

    def check_outcomes(self, wanted: list[Gang], plan: Plan, booked: set[str]) -> None:
        placed = {placement.gang.name for placement in plan.placements}
        refused = {unschedulable.gang.name for unschedulable in plan.unschedulable}
        assert not placed & refused
        assert placed | refused == {gang.name for gang in wanted}
        evicted = {pod for p in plan.placements for unit in p.victims for pod in unit.pods}
        new = {pod_placement.pod for p in plan.placements for pod_placement in p.pods}
        assert set(self.cluster.snapshot.placements) == (booked - evicted) | new

    def pending(self) -> list[Gang]:
        return list_pending(self.known.values(), self.cluster)

    # Invariants

    @invariant()
    def counts_match_reference_model(self) -> None:
        reference_model.check_counts(self.cluster.snapshot)
        reference_model.check_queues(self.cluster)

    @rule(some=st.lists(st.sampled_from(random.SHAPES), min_size=1, max_size=6))
    def cached_vectors_match_recomputation(self, some: list[random.Shape]) -> None:
        """Incrementally updated vectors equal recomputed ones."""
        fresh = FeasibilityCache(self.cluster.snapshot, random.SCORING)
        for shape in some:
            np.testing.assert_array_equal(
                self.feasibility.rejection_reasons(shape), fresh.rejection_reasons(shape)
            )
            np.testing.assert_array_equal(
                self.feasibility.free_capacity(shape), fresh.free_capacity(shape)
            )
            np.testing.assert_array_equal(
                self.feasibility.ranking_keys(shape), fresh.ranking_keys(shape)
            )


TestClusterStateMachine = ClusterStateMachine.TestCase
TestClusterStateMachine.settings = settings(
    max_examples=limit_examples(120), stateful_step_count=12, deadline=None
)
