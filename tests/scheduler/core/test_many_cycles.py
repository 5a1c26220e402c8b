"""Invariants over many cycles: evictions terminate, and backfill never delays a reservation."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support import random_clusters as random
from tests.scheduler.core.support.clusters import node
from tests.scheduler.core.support.pending_gangs import list_pending

MAX_CYCLES = 40
NODES = st.tuples(*(random.nodes(f"n{index}") for index in range(4)))


def cluster_of(nodes: tuple[Node, ...], specs: list[QueueSpec]) -> Cluster:
    cluster = Cluster(build_queue_forest(specs))
    for each in nodes:
        cluster.snapshot.put_node(each)
    return cluster


@st.composite
def many_gangs(draw: st.DrawFn) -> list[Gang]:
    count = draw(st.integers(1, 8))
    return [draw(random.gangs(f"g{index}", float(index), most=2)) for index in range(count)]


@given(NODES, random.queues(), st.lists(many_gangs(), min_size=1, max_size=3))
@settings(max_examples=limit_examples(60), deadline=None)
def test_evictions_terminate_without_repeated_state(
    nodes: tuple[Node, ...], specs: list[QueueSpec], waves: list[list[Gang]]
) -> None:
    cluster = cluster_of(nodes, specs)
    cluster.budgets = dict.fromkeys(random.BUDGETS, 1000)
    planner = Planner(cluster, random.SCORING, PlannerPolicy(random.LEVELS, reserve_after=1e9))
    known: dict[str, Gang] = {}
    now = 0.0
    for wave, gangs in enumerate(waves):
        for gang in gangs:
            known[f"w{wave}{gang.name}"] = _renamed(gang, f"w{wave}{gang.name}")
        seen: set[frozenset[tuple[str, int]]] = set()
        for _ in range(MAX_CYCLES):
            now += 100.0
            plan = planner.schedule(list_pending(known.values(), cluster), now)
            if not plan.placements:
                break
            state = frozenset((b.pod, b.row) for b in cluster.snapshot.placements.values())
            assert state not in seen
            seen.add(state)
        else:
            raise AssertionError(f"after {MAX_CYCLES} rounds there are still placements")


def _renamed(gang: Gang, name: str) -> Gang:
    names = {group.name: group.name.replace(gang.name, name, 1) for group in gang.groups}
    groups = tuple(
        replace(
            group,
            name=names[group.name],
            members=tuple(
                replace(member, pod=member.pod.replace(group.name, names[group.name], 1))
                for member in group.members
            ),
        )
        for group in gang.groups
    )
    bundles = tuple(
        replace(bundle, groups=tuple(names.get(each, each) for each in bundle.groups))
        for bundle in gang.bundles
    )
    return replace(gang, name=name, groups=groups, bundles=bundles)


@given(NODES, many_gangs())
@settings(max_examples=limit_examples(80), deadline=None)
def test_a_gang_that_is_removed_can_be_added_back(
    nodes: tuple[Node, ...], gangs: list[Gang]
) -> None:
    cluster = cluster_of(nodes, [])
    planner = Planner(
        cluster, random.SCORING, PlannerPolicy(random.LEVELS, preemption_enabled=False)
    )
    gangs = [replace(gang, queue="default") for gang in gangs]
    for placement in planner.schedule(gangs, 0.0).placements:
        gang, pods = placement.gang, [pod_placement.pod for pod_placement in placement.pods]
        cluster.snapshot.remove_pods(pods)
        cluster.record_removed(gang.name, pods)
        again = planner.schedule([gang], 0.0)
        assert [each.gang for each in again.placements] == [gang]
        assert len(again.placements[0].pods) >= gang.needed


@st.composite
def timed_gangs(draw: st.DrawFn) -> list[Gang]:
    """Gangs with a duration, most of them arriving together."""
    gangs: list[Gang] = []
    for index in range(draw(st.integers(2, 10))):
        name = f"g{index}"
        shape = draw(st.sampled_from(random.PLAIN))
        count = draw(st.integers(1, 8))
        members = tuple(Member(f"ns/{name}-{rank}", shape) for rank in range(count))
        gangs.append(
            Gang(
                name,
                (Group(name, members, draw(st.integers(1, count))),),
                created=float(draw(st.integers(0, 30))),
                duration=float(draw(st.integers(1, 60))),
            )
        )
    return gangs


@given(st.lists(st.sampled_from((1, 2, 4)), min_size=1, max_size=3), timed_gangs())
@settings(max_examples=limit_examples(80), deadline=None)
def test_backfilled_gangs_never_delay_a_reservation(gpus: list[int], gangs: list[Gang]) -> None:
    nodes = tuple(node(f"n{index}", count, 8000) for index, count in enumerate(gpus))
    cluster = cluster_of(nodes, [])
    planner = Planner(
        cluster, random.SCORING, PlannerPolicy(preemption_enabled=False, reserve_after=0.0)
    )
    promised: dict[str, float] = {}
    ends: dict[str, float] = {}
    known: dict[str, Gang] = {}
    times = sorted({gang.created for gang in gangs})
    while times:
        now = times.pop(0)
        for name in [name for name, end in ends.items() if end <= now]:
            pods = list(cluster.running_gangs[name].pods)
            cluster.snapshot.remove_pods(pods)
            cluster.record_removed(name, pods)
            del ends[name], known[name]
        known |= {gang.name: gang for gang in gangs if gang.created == now}
        plan = planner.schedule(list_pending(known.values(), cluster), now)
        for placement in plan.placements:
            gang = placement.gang
            if gang.name not in ends:
                assert now <= promised.get(gang.name, now)
                ends[gang.name] = now + (gang.duration or 0.0)
                times = sorted({*times, ends[gang.name]})
        if plan.backfill_reservation is not None and plan.backfill_reservation.gang.needed:
            name, at = plan.backfill_reservation.gang.name, plan.backfill_reservation.start_time
            assert at <= promised.get(name, at)
            promised[name] = at
    assert not [g for g in known.values() if g.name in promised], "promised, and never started"


def test_queues_with_demand_get_deserved_share() -> None:
    cluster = cluster_of(
        (node("n0", 4), node("n1", 4)),
        [QueueSpec("mine", deserved={GPU: 4000}), QueueSpec("theirs", deserved={GPU: 4000})],
    )
    planner = Planner(cluster, random.SCORING, PlannerPolicy(reserve_after=1e9))
    gangs = {
        f"{queue}{index}": Gang(
            f"{queue}{index}",
            (Group("g", (Member(f"ns/{queue}{index}", random.SINGLE),), 1),),
            queue=queue,
        )
        for queue in ("theirs", "mine")
        for index in range(8)
    }
    theirs = [gang for gang in gangs.values() if gang.queue == "theirs"]
    planner.schedule(theirs, 0.0)
    assert cluster.used.amounts_of("theirs")[GPU] == 8000
    planner.schedule(list_pending(gangs.values(), cluster), 1.0)
    assert cluster.used.amounts_of("theirs")[GPU] == cluster.used.amounts_of("mine")[GPU] == 4000
