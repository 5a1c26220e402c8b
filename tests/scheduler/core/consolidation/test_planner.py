"""Migrations for a pending gang, and without one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.consolidation.migration import GangMigration, MigrationBudget
from kilonova.scheduler.core.consolidation.planner import Consolidation
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, GangAntiAffinity, PackConstraint
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.demand import Demand, PackingRequest
from kilonova.scheduler.core.scoring.fragmentation import FragmentationModel, LargestNode
from kilonova.scheduler.core.scoring.packing_fit import free_resources_on
from kilonova.scheduler.core.scoring.plugins import default_scoring
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support import clusters, reference_model
from tests.scheduler.core.support import random_clusters as random
from tests.scheduler.core.support.clusters import BLOCK, RACK, gang, group, node, shape, tight

POLICY = PlannerPolicy((BLOCK, RACK), preemption_enabled=False, reserve_after=1e9)
LARGE_BUDGET = MigrationBudget(100)
HALF_GPU_MODEL = FragmentationModel(
    Demand({PackingRequest(0, 0, 1, 500): 1.0}), LargestNode(64_000, 256 << 30, 8)
)


def cluster_of(*nodes: Node, queues: tuple[QueueSpec, ...] = ()) -> Cluster:
    cluster = Cluster(build_queue_forest(queues))
    for each in nodes:
        cluster.snapshot.put_node(each)
    return cluster


def racks(count: int, queues: tuple[QueueSpec, ...] = ()) -> Cluster:
    """Racks of two nodes with eight GPUs each."""
    nodes = (node(f"n{index}", rack=f"r{index // 2}") for index in range(2 * count))
    return cluster_of(*nodes, queues=queues)


def place_gang(cluster: Cluster, one: Gang, on: str, *, since: float = 0.0, first: int = 0) -> None:
    """Places a gang on a node, on GPUs from the `first` on."""
    placements: list[PodPlacement] = []
    for member in (member for part in one.groups for member in part.members):
        request = member.shape.gpu
        shares = (
            tuple(GpuShare(first + index, request.milli) for index in range(request.count))
            if request
            else ()
        )
        first += len(shares) if request and request.is_whole else 0
        placements.append(PodPlacement(member, cluster.snapshot.row(on), shares, one.name))
    cluster.snapshot.add_pods(placements)
    cluster.record_placed(one, placements, since)


def job(name: str, pods: int, gpus: int = 1, **facts: object) -> Gang:
    return replace(gang(name, group(name, pods, of=shape(gpus))), **facts)


def rack_gang(name: str = "big", pods: int = 16) -> Gang:
    return gang(name, group(name, pods), pack=PackConstraint(required=RACK))


def plan(
    cluster: Cluster,
    pending: Gang | None,
    budget: MigrationBudget = LARGE_BUDGET,
    now: float = 1000.0,
    worth: FragmentationModel | None = None,
) -> Consolidation:
    before = reference_model.facts(cluster)
    found = Planner(cluster, tight, POLICY).consolidate(pending, budget, now, fragmentation=worth)
    assert reference_model.facts(cluster) == before
    return found


def migrated_gangs(found: Consolidation) -> list[str]:
    return sorted(migration.gang.name for migration in found.migrations)


def apply_migrations(cluster: Cluster, migrations: tuple[GangMigration, ...], now: float) -> None:
    for migration in migrations:
        cluster.snapshot.remove_pods(migration.pods)
        cluster.record_removed(migration.gang.name, migration.pods)
    for migration in migrations:
        cluster.snapshot.add_pods(migration.targets)
        cluster.record_placed(migration.gang, migration.targets, now)


def test_rack_is_freed_for_gang_by_two_migrations() -> None:
    cluster = racks(2)
    place_gang(cluster, job("a", 1, 2), "n0")
    place_gang(cluster, job("b", 1, 2), "n1")
    place_gang(cluster, job("c", 4, 2, preemptible=False), "n2")
    big = rack_gang()
    found = plan(cluster, big)
    assert migrated_gangs(found) == ["a", "b"]
    assert {placement.row for migration in found.migrations for placement in migration.targets} == {
        3
    }
    assert len(found.placements) == 16
    apply_migrations(cluster, found.migrations, 1000.0)
    cluster.snapshot.add_pods(found.placements)
    reference_model.check_counts(cluster.snapshot)
    reference_model.check_gang(cluster.snapshot, GangPlacement(big, found.placements))


def test_gang_that_blocks_nothing_stays() -> None:
    cluster = racks(2)
    place_gang(cluster, job("small", 1, 2), "n0")
    place_gang(cluster, job("large", 1, 4), "n1")
    place_gang(cluster, job("other", 8, preemptible=False), "n2")
    found = plan(cluster, rack_gang(pods=12))
    assert migrated_gangs(found) == ["small"]


def test_domain_with_least_lost_work_is_chosen() -> None:
    cluster = racks(3)
    place_gang(cluster, job("old", 1, 2), "n0", since=0.0)
    place_gang(cluster, job("young", 1, 2), "n2", since=900.0)
    place_gang(cluster, job("rest", 4, preemptible=False), "n4")
    assert migrated_gangs(plan(cluster, rack_gang())) == ["young"]


def test_pods_migrate_within_domain() -> None:
    cluster = racks(1)
    place_gang(cluster, job("a", 1, 4), "n0")
    place_gang(cluster, job("b", 1, 4), "n1")
    whole = gang("big", group("big", 1, of=shape(8)))
    found = plan(cluster, whole)
    assert len(found.migrations) == 1
    assert found.migrations[0].targets[0].row != found.placements[0].row


def test_only_surplus_pod_migrates() -> None:
    cluster = racks(2)
    elastic = gang("e", group("e", 3, 2, of=shape(2)))
    for member, on in zip(elastic.groups[0].members, ("n2", "n2", "n0"), strict=True):
        first = 2 * len(cluster.snapshot.pods_on[cluster.snapshot.row(on)])
        row, shares = cluster.snapshot.row(on), (GpuShare(first, 1000), GpuShare(first + 1, 1000))
        cluster.snapshot.add_pod(PodPlacement(member, row, shares, "e"))
        cluster.record_placed(elastic, [cluster.snapshot.placements[member.pod]], 0.0)
    found = plan(cluster, rack_gang())
    assert [migration.pods for migration in found.migrations] == [("ns/e-2",)]


@pytest.mark.parametrize(
    ("budget", "migrations"),
    [
        (MigrationBudget(2), 2),
        (MigrationBudget(1), 0),
        (MigrationBudget(0), 0),
        (MigrationBudget(9, max_lost_gpu_seconds=5200.0), 2),
        (MigrationBudget(9, max_lost_gpu_seconds=5100.0), 0),
        (MigrationBudget(2, spent=((500.0, 0.0),)), 0),
        (MigrationBudget(2, spent=((-2600.0, 0.0),)), 2),
    ],
)
def test_budget_is_respected(budget: MigrationBudget, migrations: int) -> None:
    cluster = racks(2)
    place_gang(cluster, job("a", 1, 2), "n0")
    place_gang(cluster, job("b", 1, 2), "n1")
    place_gang(cluster, job("c", 4, 2, preemptible=False), "n2")
    assert len(plan(cluster, rack_gang(), budget).migrations) == migrations


def test_budget_renews_after_period() -> None:
    cluster = racks(2)
    place_gang(cluster, job("a", 1, 2), "n0")
    place_gang(cluster, job("c", 4, 2, preemptible=False), "n2")
    migrations = plan(cluster, rack_gang()).migrations
    spent = MigrationBudget(1).record(migrations, 1000.0)
    assert not spent.allows(migrations, 4599.0)
    assert spent.allows(migrations, 4600.0)


def _with_member(one: Gang, **facts: object) -> Gang:
    first = one.groups[0]
    members = tuple(replace(member, **facts) for member in first.members)
    return replace(one, groups=(replace(first, members=members),))


SMALL = job("a", 1, 2)


@pytest.mark.parametrize(
    "stays",
    [
        replace(SMALL, preemptible=False),
        replace(SMALL, anti_affinity=GangAntiAffinity(RACK)),
        replace(SMALL, queue="slow"),
        _with_member(SMALL, budgets=("ns/tight",)),
        _with_member(SMALL, terminating=True),
        replace(SMALL, groups=(replace(SMALL.groups[0], minimum=2),)),
    ],
    ids=["not preemptible", "apart", "too young", "disruption budget", "leaving", "half"],
)
def test_protected_gangs_stay(stays: Gang) -> None:
    cluster = racks(2, queues=(QueueSpec("slow", preempt_min_runtime=3600.0),))
    place_gang(cluster, stays, "n0")
    place_gang(cluster, job("c", 4, 2, preemptible=False), "n2")
    assert plan(cluster, rack_gang()) == Consolidation()
    assert plan(cluster, None) == Consolidation()


def test_base_gang_of_others_stays() -> None:
    cluster = racks(2)
    place_gang(cluster, SMALL, "n0")
    place_gang(cluster, job("c", 4, 2, preemptible=False), "n2")
    belongs = replace(job("more", 1), pack=PackConstraint(required=RACK), base_nodes=("n0",))
    place_gang(cluster, belongs, "n1")
    assert plan(cluster, rack_gang()) == Consolidation()


def test_excluded_gangs_stay() -> None:
    cluster = racks(2)
    place_gang(cluster, SMALL, "n0")
    place_gang(cluster, job("c", 4, 2, preemptible=False), "n2")
    planner = Planner(cluster, tight, POLICY)
    assert planner.consolidate(rack_gang(), LARGE_BUDGET, 0.0, excluded=["a"]) == Consolidation()
    assert migrated_gangs(planner.consolidate(rack_gang(), LARGE_BUDGET, 0.0)) == ["a"]


def test_no_migration_without_target() -> None:
    cluster = racks(2)
    place_gang(cluster, job("a", 1, 4), "n0")
    place_gang(cluster, job("b", 7, preemptible=False), "n2")
    place_gang(cluster, job("c", 7, preemptible=False), "n3")
    assert plan(cluster, rack_gang()) == Consolidation()


def test_another_gang_migrates_when_one_has_no_target() -> None:
    cluster = racks(2)
    place_gang(cluster, job("wide", 1, 4), "n0", since=900.0)
    place_gang(cluster, job("slim", 4), "n1", since=0.0)
    place_gang(cluster, job("b", 6, preemptible=False), "n2")
    place_gang(cluster, job("c", 6, preemptible=False), "n3")
    assert migrated_gangs(plan(cluster, rack_gang(pods=12))) == ["slim"]


def test_no_migration_for_gang_that_fits_or_is_invalid() -> None:
    cluster = racks(2, queues=(QueueSpec("poor", limit={"nvidia.com/gpu": 1000}),))
    place_gang(cluster, SMALL, "n0")
    assert plan(cluster, rack_gang()) == Consolidation()
    place_gang(cluster, job("c", 4, 2, preemptible=False), "n2")
    assert plan(cluster, replace(rack_gang(), queue="poor")) == Consolidation()
    assert plan(cluster, replace(rack_gang(), queue="none")) == Consolidation()


def test_migrated_gang_keeps_its_topology_constraint() -> None:
    cluster = racks(3)
    pair = replace(job("pair", 2, 4), pack=PackConstraint(required=RACK))
    place_gang(cluster, pair, "n0")
    for index, gpus in enumerate((6, 4, 4, 4)):
        place_gang(cluster, job(f"x{index}", 1, gpus, preemptible=False), f"n{index + 2}")
    found = plan(cluster, rack_gang())
    assert migrated_gangs(found) == ["pair"]
    assert {placement.row for placement in found.migrations[0].targets} == {4, 5}


def test_underused_nodes_are_emptied_when_no_gang_is_pending() -> None:
    cluster = racks(2)
    place_gang(cluster, job("a", 1, 2), "n0")
    place_gang(cluster, job("b", 1, 2), "n1")
    place_gang(cluster, job("c", 1, 4), "n2")
    found = plan(cluster, None)
    assert migrated_gangs(found) == ["a", "b"]
    assert {placement.row for migration in found.migrations for placement in migration.targets} == {
        2
    }
    apply_migrations(cluster, found.migrations, 1000.0)
    assert plan(cluster, None) == Consolidation()


def test_node_with_only_cpu_gangs_is_in_use() -> None:
    cluster = racks(1)
    place_gang(cluster, job("web", 1, 0, preemptible=False), "n0")
    place_gang(cluster, job("a", 1, 2), "n1")
    found = plan(cluster, None)
    assert migrated_gangs(found) == ["a"]
    assert {placement.row for migration in found.migrations for placement in migration.targets} == {
        0
    }


def test_foreign_cpu_pods_do_not_make_node_used() -> None:
    cluster = racks(1)
    agent = clusters.group("agent", 1, of=shape(0)).members[0]
    cluster.snapshot.add_pod(PodPlacement(agent, cluster.snapshot.row("n0")))
    place_gang(cluster, job("a", 1, 2), "n1")
    assert plan(cluster, None) == Consolidation()


def test_many_migrations_for_one_node_are_rejected() -> None:
    cluster = racks(1)
    for index in range(4):
        place_gang(cluster, job(f"a{index}", 1), "n0", first=index)
        place_gang(cluster, job(f"b{index}", 1), "n1", first=index)
    assert plan(cluster, None) == Consolidation()


def test_half_gpu_shares_are_joined() -> None:
    cluster = cluster_of(node("n0", 2), node("n1", 2))
    half = shape(1, milli=500)
    place_gang(cluster, gang("a", group("a", 1, of=half)), "n0", first=0)
    place_gang(cluster, replace(job("x", 1), preemptible=False), "n0", first=1)
    place_gang(cluster, gang("b", group("b", 1, of=half)), "n1", first=0)
    place_gang(cluster, replace(job("y", 1), preemptible=False), "n1", first=1)
    demand = FragmentationModel(
        Demand({PackingRequest(0, 0, 1): 1.0}), LargestNode(64_000, 256 << 30, 2)
    )
    found = plan(cluster, None, worth=demand)
    assert len(found.migrations) == 1
    apply_migrations(cluster, found.migrations, 1000.0)
    assert plan(cluster, None, worth=demand) == Consolidation()


def objective(cluster: Cluster) -> tuple[int, float]:
    snapshot = cluster.snapshot
    left = free_resources_on(snapshot, np.flatnonzero(snapshot.alive[: snapshot.size]))
    return count_unused_nodes_and_domains(cluster), round(
        float(HALF_GPU_MODEL.usable_milli(left).sum()), 6
    )


def count_unused_nodes_and_domains(cluster: Cluster) -> int:
    """Nodes with GPUs, and domains of such nodes, without a pod of a gang or one with GPUs."""
    snapshot = cluster.snapshot
    used: dict[str, bool] = {}
    for each in snapshot.nodes():
        if not each.allocatable.get(GPU, 0):
            continue
        pods = snapshot.pods_on[snapshot.row(each.name)].values()
        busy = any(pod.gang in cluster.running_gangs or pod.shape.gpu is not None for pod in pods)
        for level in ("", *POLICY.levels):
            value = each.labels.get(level) if level else each.name
            if value is not None:
                place = f"{level}={value}"
                used[place] = used.get(place, False) or busy
    return sum(not busy for busy in used.values())


def describe_plan(cluster: Cluster, found: Consolidation) -> object:
    """Migrations and the placement they free, independent of rows."""
    nodes = cluster.snapshot.names
    places = [
        (migration.gang.name, sorted(migration.pods), migration.targets)
        for migration in found.migrations
    ]
    return [
        (name, pods, sorted((b.pod, nodes[b.row], b.devices) for b in placements))
        for name, pods, placements in (*places, ("", [], found.placements))
    ]


def check_migrations(cluster: Cluster, migrations: tuple[GangMigration, ...], now: float) -> None:
    """Applies migrations: all migrated pods are placed within their constraints, and no others."""
    pods = set(cluster.snapshot.placements)
    apply_migrations(cluster, migrations, now)
    assert set(cluster.snapshot.placements) == pods
    reference_model.check_counts(cluster.snapshot)
    reference_model.check_queues(cluster)
    for migration in migrations:
        assert migration.gang.preemptible
        assert sorted(migration.pods) == sorted(placement.pod for placement in migration.targets)
        reference_model.check_new_placements(cluster.snapshot, migration.targets)
        running_gang = cluster.running_gangs[migration.gang.name]
        placed = tuple(cluster.snapshot.placements[pod] for pod in running_gang.pods)
        reference_model.check_gang(cluster.snapshot, GangPlacement(migration.gang, placed))


@st.composite
def varied_clusters(draw: st.DrawFn) -> Cluster:
    """Gangs of every kind were placed on nodes of every kind, and some ended."""
    cluster = cluster_of(*(draw(random.nodes(f"n{index}")) for index in range(6)))
    cluster.budgets = dict.fromkeys(random.BUDGETS, draw(st.integers(0, 8)))
    gangs = [draw(random.gangs(f"g{index}", most=2)) for index in range(draw(st.integers(2, 8)))]
    gangs = [replace(one, queue="default") for one in gangs]
    Planner(cluster, default_scoring(), POLICY).schedule(gangs, 0.0)
    for name in sorted(cluster.running_gangs):
        if draw(st.booleans()):
            pods = list(cluster.running_gangs[name].pods)
            cluster.snapshot.remove_pods(pods)
            cluster.record_removed(name, pods)
    return cluster


@st.composite
def scattered_clusters(draw: st.DrawFn) -> Cluster:
    """Small gangs at random on equal nodes."""
    cluster = cluster_of(*(node(f"n{index}", 4, rack=f"r{index // 2}") for index in range(6)))
    placer = clusters.placer(cluster.snapshot)
    for index in range(draw(st.integers(4, 14))):
        name = f"g{index}"
        of = shape(draw(st.integers(1, 2)), milli=draw(st.sampled_from((1000, 1000, 500, 300))))
        pods = draw(st.integers(1, 3))
        one = replace(
            gang(name, group(name, pods, draw(st.integers(1, pods)), of=of)),
            pack=draw(
                st.sampled_from((PackConstraint(), PackConstraint(), PackConstraint(required=RACK)))
            ),
            preemptible=draw(st.integers(0, 5)) < 5,
        )
        some = draw(st.sets(st.integers(0, 2), min_size=1))
        rows = [row for rack in sorted(some) for row in (2 * rack, 2 * rack + 1)]
        placements = placer.place(one, np.array(rows[draw(st.integers(0, 1)) :], np.intp))
        if placements is not None:
            cluster.record_placed(one, placements, draw(st.sampled_from((0.0, 500.0))))
    return cluster


@st.composite
def large_gangs(draw: st.DrawFn) -> Gang:
    """Gangs that require a rack or whole nodes."""
    pods, gpus = draw(st.sampled_from(((1, 4), (2, 4), (3, 4), (6, 1), (7, 1), (8, 1), (3, 2))))
    pack = draw(st.sampled_from((PackConstraint(), PackConstraint(required=RACK))))
    return gang("new", group("new", pods, of=shape(gpus)), pack=pack)


clusters_of_all_kinds = st.one_of(scattered_clusters(), varied_clusters())
pending_gangs = st.one_of(large_gangs(), random.gangs("new", most=2))


@settings(max_examples=limit_examples(200), deadline=None)
@given(cluster=clusters_of_all_kinds)
def test_compaction_improves_monotonically_and_terminates(cluster: Cluster) -> None:
    planner = Planner(cluster, default_scoring(), POLICY)
    now, steps = 1000.0, 0
    while migrations := (
        found := planner.consolidate(None, MigrationBudget(3), now, fragmentation=HALF_GPU_MODEL)
    ).migrations:
        other = reference_model.rebuild_cluster(cluster)
        elsewhere = Planner(other, default_scoring(), POLICY)
        again = elsewhere.consolidate(None, MigrationBudget(3), now, fragmentation=HALF_GPU_MODEL)
        assert describe_plan(other, again) == describe_plan(cluster, found)
        before = objective(cluster)
        assert len(migrations) <= 3
        check_migrations(cluster, migrations, now)
        assert objective(cluster) > before
        now, steps = now + 10_000.0, steps + 1
        assert steps < 50


@settings(max_examples=limit_examples(300), deadline=None)
@given(cluster=clusters_of_all_kinds, pending=pending_gangs)
def test_gang_fits_after_migrations_and_no_pod_is_unplaced(cluster: Cluster, pending: Gang) -> None:
    planner = Planner(cluster, default_scoring(), POLICY)
    pending = replace(pending, queue="default")
    before = reference_model.facts(cluster)
    found = planner.consolidate(pending, MigrationBudget(4), 1000.0)
    assert reference_model.facts(cluster) == before
    other = reference_model.rebuild_cluster(cluster)
    again = Planner(other, default_scoring(), POLICY).consolidate(
        pending, MigrationBudget(4), 1000.0
    )
    assert describe_plan(other, again) == describe_plan(cluster, found)
    if not found.migrations:
        assert not found.placements
        return
    assert not planner.plan([pending], 1000.0).placements
    check_migrations(cluster, found.migrations, 1000.0)
    cluster.snapshot.add_pods(found.placements)
    reference_model.check_new_placements(cluster.snapshot, found.placements)
    reference_model.check_gang(
        cluster.snapshot, GangPlacement(pending.only_required_members(), found.placements)
    )


@settings(max_examples=limit_examples(200), deadline=None)
@given(
    used=st.lists(st.integers(0, 4), min_size=6, max_size=6),
    fixed=st.integers(0, 3),
    pods=st.integers(1, 8),
)
def test_migration_count_is_minimal_for_equal_pods(used: list[int], fixed: int, pods: int) -> None:
    cluster = cluster_of(*(node(f"n{index}", 4, rack=f"r{index // 2}") for index in range(6)))
    for index, count in enumerate(used):
        for rank in range(count):
            one = job(f"g{index}{rank}", 1, preemptible=rank >= fixed)
            place_gang(cluster, one, f"n{index}", first=rank)
    free = [8 - used[2 * rack] - used[2 * rack + 1] for rack in range(3)]
    movable = [sum(max(0, count - fixed) for count in used[2 * r : 2 * r + 2]) for r in range(3)]
    missing = [max(0, pods - has) for has in free]
    possible = [lacks for lacks, some in zip(missing, movable, strict=True) if lacks <= some]
    found = plan(cluster, rack_gang(pods=pods))
    fits = sum(free) >= pods and bool(possible)
    assert len(found.migrations) == (min(possible) if fits else 0)
    assert len(found.placements) == (pods if found.migrations else 0)
