"""Migrations among MIG instances: for a pending gang, and for the demand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replace_struct

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.consolidation.mig_rebalancing import MigPool
from kilonova.scheduler.core.consolidation.migration import MigrationBudget
from kilonova.scheduler.core.consolidation.planner import Consolidation
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout, GpuShare
from kilonova.scheduler.core.gpu.mig import remaining_value
from kilonova.scheduler.core.gpu.rebalancing.plan import RebalanceSettings
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scoring.plugins import default_scoring
from tests.catalog.mig_states import part
from tests.harness.campaigns import limit_examples

H100 = part("H100-80GB")
NOW = 10_000.0
LARGE_BUDGET = MigrationBudget(100)
FRAGMENTED = ("1g.10gb@0", "1g.10gb@2 3g.40gb@4")
"""By GPU: the instance of the first one has a place on the second."""


def shape(profile: str, count: int = 1) -> Shape:
    """A pod that requests instances of a profile, or whole GPUs without one."""

    requests: dict[str, int] = {"cpu": 100, "memory": 1 << 20, "pods": 1}
    if not profile:
        requests[GPU] = count
    request = GpuRequest(count, 1000, profile)
    return Shape(tuple(sorted(requests.items())), request)


def gang_of(name: str, *profiles: str, **facts: Any) -> Gang:
    members = tuple(
        Member(f"ns/{name}-{number}", shape(profile)) for number, profile in enumerate(profiles)
    )
    return replace(Gang(name, (Group(name, members, len(members)),)), **facts)


def cluster_of(*nodes: Sequence[str]) -> Cluster:
    """Nodes n0, n1, …: for each GPU its instances, each of a gang `NODE.GPU.START`."""
    cluster = Cluster()
    for number, gpus in enumerate(nodes):
        name = f"n{number}"
        layout = GpuLayout(tuple(Gpu(index, 81559, mig=H100) for index in range(len(gpus))))
        amounts = {"cpu": 64_000, "memory": 256 << 30, "pods": 110, GPU: len(gpus)}
        cluster.snapshot.put_node(Node(name, amounts, layout=layout))
        for index, text in enumerate(gpus):
            for word in text.split():
                place_instance(cluster, name, index, word)
    return cluster


def place_instance(
    cluster: Cluster, node: str, index: int, text: str, *, since: float = 0.0, **facts: Any
) -> None:
    profile, _, start = text.partition("@")
    one = gang_of(f"{node}.{index}.{start}", profile, **facts)
    [member] = one.groups[0].members
    found = H100.profile(profile)
    assert found is not None
    share = GpuShare(index, 1000, profile, int(start), found.mask_at(int(start)))
    placement = PodPlacement(member, cluster.snapshot.row(node), (share,), one.name)
    cluster.snapshot.add_pods([placement])
    cluster.record_placed(one, [placement], since)


def pool_of(cluster: Cluster, *nodes: str, stateless: bool = True, **changes: float) -> MigPool:
    """All GPUs of some nodes, or of all."""
    names = nodes or tuple(cluster.snapshot.names)
    pods = frozenset(cluster.snapshot.placements) if stateless else frozenset[str]()
    found = replace_struct(RebalanceSettings(), **changes)
    return MigPool("pool", dict.fromkeys(names), found, pods)


def rebalance(
    cluster: Cluster,
    pool: MigPool | None = None,
    pending: Gang | None = None,
    budget: MigrationBudget = LARGE_BUDGET,
    now: float = NOW,
) -> Consolidation:
    planner = Planner(cluster, default_scoring())
    return planner.rebalance_mig(pending, pool or pool_of(cluster), budget, now)


def described(cluster: Cluster, found: Consolidation) -> list[str]:
    def place(each: PodPlacement) -> str:
        [share] = each.devices
        return f"{cluster.snapshot.names[each.row]}:{share.index}@{share.start}"

    return sorted(
        f"{place(source)} → {place(target)}"
        for each in found.migrations
        for source, target in zip(each.sources, each.targets, strict=True)
    )


def value_of(cluster: Cluster) -> float:
    snapshot = cluster.snapshot
    values = remaining_value(H100, snapshot.mig_demand)
    return sum(
        float(values[int(snapshot.gpu_mask[snapshot.row(name), gpu.index])])
        for name in snapshot.names
        for gpu in snapshot.layout(snapshot.row(name)).gpus
    )


def apply(cluster: Cluster, found: Consolidation, now: float) -> None:
    for each in found.migrations:
        cluster.snapshot.remove_pods(each.pods)
        cluster.record_removed(each.gang.name, each.pods)
    for each in found.migrations:
        cluster.snapshot.add_pods(each.targets)
        cluster.record_placed(each.gang, each.targets, now)


def test_instance_leaves_its_gpu_for_another() -> None:
    cluster = cluster_of(FRAGMENTED)
    before = cluster.snapshot.placements.copy()
    [move] = described(cluster, found := rebalance(cluster))
    assert move.startswith("n0:0@0 → n0:1@")
    assert cluster.snapshot.placements == before
    apply(cluster, found, NOW)
    assert int(cluster.snapshot.gpu_mask[0, 0]) == 0


def test_instance_moves_to_another_node() -> None:
    cluster = cluster_of(FRAGMENTED[:1], FRAGMENTED[1:])
    [move] = described(cluster, rebalance(cluster))
    assert move.startswith("n0:0@0 → n1:0@")


def test_pool_has_only_its_nodes() -> None:
    cluster = cluster_of(FRAGMENTED[:1], FRAGMENTED[1:])
    assert not rebalance(cluster, pool_of(cluster, "n1")).migrations


def test_pool_has_only_its_gpus() -> None:
    cluster = cluster_of(FRAGMENTED)
    pool = replace(pool_of(cluster), gpus={"n0": frozenset({1})})
    assert not rebalance(cluster, pool).migrations


def test_all_pods_of_a_gpu_leave_it_together() -> None:
    cluster = cluster_of(("1g.10gb@0 1g.10gb@3", "3g.40gb@4"))
    found = rebalance(cluster, pool_of(cluster, min_utilization=0.5))
    assert len(found.migrations) == 2
    assert not rebalance(
        cluster, pool_of(cluster, min_utilization=0.5), budget=MigrationBudget(0)
    ).migrations


HELD: dict[str, dict[str, Any]] = {
    "not preemptible": {"preemptible": False},
    "started within the interval": {"since": NOW - 200},
}


@pytest.mark.parametrize("facts", HELD.values(), ids=HELD)
def test_gangs_that_may_not_be_migrated_stay(facts: dict[str, Any]) -> None:
    cluster = cluster_of(("", FRAGMENTED[1]))
    place_instance(cluster, "n0", 0, "1g.10gb@0", **facts)
    assert not [each for each in described(cluster, rebalance(cluster)) if each.startswith("n0:0")]


MEMBERS: dict[str, dict[str, Any]] = {
    "no controller": {"has_controller": False},
    "a disruption budget": {"budgets": ("ns/keep",)},
    "terminating": {"terminating": True},
}


@pytest.mark.parametrize("facts", MEMBERS.values(), ids=MEMBERS)
def test_pods_that_may_not_be_evicted_stay(facts: dict[str, Any]) -> None:
    cluster = cluster_of(("", FRAGMENTED[1]))
    cluster.budgets["ns/keep"] = 0
    one = gang_of("one", "1g.10gb")
    [group] = one.groups
    member = replace(group.members[0], **facts)
    one = replace(one, groups=(replace(group, members=(member,)),))
    placement = PodPlacement(member, 0, (GpuShare(0, 1000, "1g.10gb", 0, 1),), "one")
    cluster.snapshot.add_pods([placement])
    cluster.record_placed(one, [placement], 0.0)
    assert not [each for each in described(cluster, rebalance(cluster)) if each.startswith("n0:0")]


def test_work_of_pods_that_keep_none_counts_as_cost() -> None:
    cluster = cluster_of(FRAGMENTED)
    stateful = pool_of(cluster, stateless=False)
    assert rebalance(cluster, pool_of(cluster), now=1e6).migrations
    assert not rebalance(cluster, stateful, now=1e6).migrations
    assert rebalance(cluster, stateful, now=600).migrations


def test_benefit_must_exceed_the_cost_by_the_hysteresis() -> None:
    cluster = cluster_of(FRAGMENTED)
    assert rebalance(cluster, pool_of(cluster, hysteresis=0.5)).migrations
    assert not rebalance(cluster, pool_of(cluster, hysteresis=50.0)).migrations


def test_gpus_with_other_pods_are_left_alone() -> None:
    cluster = cluster_of(("1g.10gb@0", ""))
    whole = Member("ns/whole", shape(""))
    placement = PodPlacement(whole, 0, (GpuShare(1),), "")
    cluster.snapshot.add_pods([placement])
    assert not [each for each in described(cluster, rebalance(cluster)) if "n0:1" in each]


def test_pending_instance_gets_its_place() -> None:
    cluster = cluster_of(("1g.10gb@0", "2g.20gb@2"))
    pending = gang_of("large", "7g.80gb")
    found = rebalance(cluster, pending=pending)
    [placement] = found.placements
    assert placement.gang == "large"
    assert len(found.migrations) == 1
    apply(cluster, found, NOW)
    cluster.snapshot.add_pods(found.placements)
    assert not any(
        cluster.snapshot.has_device_conflict(each) for each in cluster.snapshot.placements.values()
    )


def test_pending_pod_gets_a_whole_gpu() -> None:
    cluster = cluster_of(("1g.10gb@0", "2g.20gb@2"))
    found = rebalance(cluster, pending=gang_of("whole", ""))
    assert len(found.migrations) == 1
    assert len(found.placements) == 1


def test_pending_gang_is_not_worth_more_work_than_it_does() -> None:
    cluster = cluster_of(("1g.10gb@0", "2g.20gb@2"))
    stateful = pool_of(cluster, stateless=False)
    assert not rebalance(cluster, stateful, gang_of("large", "7g.80gb"), now=1e6).migrations


def test_pending_gang_moves_no_pods_outside_of_the_pool() -> None:
    cluster = cluster_of(("1g.10gb@0", "2g.20gb@2"))
    pool = pool_of(cluster, "elsewhere")
    assert not rebalance(cluster, pool, gang_of("large", "7g.80gb")).migrations


PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb", "1g.20gb")


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Nodes of two GPUs with instances at random places."""
    cluster = cluster_of(*[("", "")] * draw(st.integers(1, 3)))
    for name in list(cluster.snapshot.names):
        for index in (0, 1):
            mask = 0
            for profile_name in draw(st.lists(st.sampled_from(PROFILES), max_size=4)):
                free = H100.free_starts(mask, profile_name)
                if free:
                    start = draw(st.sampled_from(sorted(free)))
                    profile = H100.profile(profile_name)
                    assert profile is not None
                    mask |= profile.mask_at(start)
                    place_instance(cluster, name, index, f"{profile_name}@{start}")
    weights = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=4, max_size=4))
    cluster.snapshot.mig_demand = tuple(
        (name, weight) for name, weight in sorted(zip(PROFILES, weights, strict=True)) if weight
    )
    return cluster


@settings(max_examples=limit_examples(60), deadline=None)
@given(cluster=clusters(), budget=st.integers(1, 5))
def test_each_rebalancing_gains_and_they_end(cluster: Cluster, budget: int) -> None:
    now = NOW
    for _ in range(60):
        pool, before = pool_of(cluster), value_of(cluster)
        found = rebalance(cluster, pool, budget=MigrationBudget(budget), now=now)
        if not found.migrations:
            break
        assert len(found.migrations) <= budget
        apply(cluster, found, now)
        cost = sum(each.lost_gpu_seconds for each in found.migrations)
        gain = (value_of(cluster) - before) * pool.settings.benefit_seconds
        assert gain > (1 + pool.settings.hysteresis) * cost > 0
        assert not any(
            cluster.snapshot.has_device_conflict(each)
            for each in cluster.snapshot.placements.values()
        )
        now += pool.settings.min_interval
    else:
        pytest.fail("rebalancing does not end")
