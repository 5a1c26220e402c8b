"""Selected victims in small clusters that an exact search found."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.decisions import InsufficientCapacity, Plan
from kilonova.scheduler.core.explain import explain
from kilonova.scheduler.core.model.cluster import Cluster, RunningGang
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.pod_affinity import AffinityTerm, PodAffinityRules, PodSelector
from kilonova.scheduler.core.model.requirements import Requirement
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec, ResourceAmounts
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.plugins import default_scoring
from tests.scheduler.core.support import reference_model
from tests.scheduler.core.support.preemption_cases import (
    NOW,
    ZONE,
    node,
    pending,
    place_gang,
    running,
    shape,
)


def cluster_of(*nodes: tuple[str, int, str], queues: tuple[QueueSpec, ...] = ()) -> Cluster:
    """Nodes by name, GPUs and zone."""
    cluster = Cluster(build_queue_forest(queues))
    for name, gpus, zone in nodes:
        cluster.snapshot.put_node(node(name, gpus, zone))
    return cluster


def schedule(cluster: Cluster, gang: Gang) -> Plan:
    return Planner(cluster, default_scoring(), PlannerPolicy((ZONE,))).schedule([gang], NOW)


def evicted_gangs(plan: Plan) -> list[str]:
    return [unit.gang for placement in plan.placements for unit in placement.victims]


def test_queue_above_deserved_does_not_reclaim() -> None:
    queues = (QueueSpec("a", deserved={GPU: 2000}), QueueSpec("b", deserved={GPU: 1000}))
    cluster = cluster_of(("n0", 2, ""), ("n1", 2, ""), ("n2", 3, ""), queues=queues)
    own = [("n0", (1,)), ("n1", (1,)), ("n0", (0,)), ("n2", (1,))]
    place_gang(cluster, running("own", own, 3, queue="a"), own, age=100)
    other = [("n2", (2,)), ("n2", (0,))]
    place_gang(cluster, running("other", other, queue="b", priority=1), other, age=10)
    last = [("n1", (0,))]
    place_gang(cluster, running("last", last, queue="b"), last, age=1)
    plan = schedule(cluster, pending("w", 2, 1, queue="a", priority=2))
    assert evicted_gangs(plan) == ["own"]


def test_own_victims_that_restore_entitlement_are_evicted() -> None:
    queues = (QueueSpec("b", deserved={GPU: 2000}), QueueSpec("c", deserved={GPU: 0}))
    cluster = cluster_of(("n0", 1, ""), ("n2", 2, ""), queues=queues)
    place_gang(cluster, running("mine", [("n0", (0,))], queue="b"), [("n0", (0,))])
    place_gang(cluster, running("theirs", [("n2", (0, 1))], queue="c"), [("n2", (0, 1))])
    plan = schedule(cluster, pending("w", 1, 2, queue="b", priority=3))
    assert sorted(evicted_gangs(plan)) == ["mine", "theirs"]
    assert cluster.used.amounts_of("b")[GPU] == 2000


def test_unneeded_victim_stays_when_other_devices_suffice() -> None:
    cluster = cluster_of(("n0", 4, "r"), ("n1", 4, ""))
    large = [("n1", (0,)), ("n1", (1,)), ("n1", (2,)), ("n0", (1,))]
    place_gang(cluster, running("keepme", large), large, age=100)
    enough = [("n0", (0, 3))]
    place_gang(cluster, running("enough", enough, priority=1), enough, age=40)
    plan = schedule(cluster, pending("w", 3, 1, priority=2, zone=True))
    assert evicted_gangs(plan) == ["enough"]
    assert "keepme" in cluster.running_gangs


def test_cheap_victim_does_not_exhaust_entitlement_to_needed_victim() -> None:
    queues = (QueueSpec("a", deserved={GPU: 1000}), QueueSpec("b", deserved={GPU: 5000}))
    cluster = cluster_of(("n0", 1, "z0"), ("n1", 3, "z1"), queues=queues)
    cheap = [("n1", (0,)), ("n0", (0,))]
    place_gang(cluster, running("cheap", cheap, queue="a"), cheap)
    place_gang(
        cluster, running("needed", [("n1", (1, 2))], queue="a", priority=1), [("n1", (1, 2))]
    )
    plan = schedule(cluster, pending("w", 1, 2, queue="b", zone=True))
    assert evicted_gangs(plan) == ["needed"]


def test_queue_deserving_only_cpu_does_not_evict_deserved_gpus() -> None:
    queues = (
        QueueSpec("a", deserved={"cpu": 8000}),
        QueueSpec("b", deserved={GPU: 4000, "cpu": 1000}),
    )
    cluster = cluster_of(("n0", 4, ""), queues=queues)
    for name, devices in (("s0", (0, 1)), ("s1", (2, 3))):
        place = [("n0", devices)]
        place_gang(cluster, running(name, place, queue="b", cpu=2000), place, age=1000)
    assert not schedule(cluster, pending("w", 1, 2, queue="a", cpu=2000)).placements
    assert set(cluster.running_gangs) == {"s0", "s1"}


def test_never_preempting_gang_neither_preempts_nor_reclaims() -> None:
    queues = (QueueSpec("a", deserved={GPU: 2000}), QueueSpec("b"))
    cluster = cluster_of(("n0", 1, ""), ("n1", 1, ""), queues=queues)
    place_gang(cluster, running("own", [("n0", (0,))], queue="a"), [("n0", (0,))], age=10)
    place_gang(cluster, running("other", [("n1", (0,))], queue="b"), [("n1", (0,))], age=10)
    gang = pending("w", 1, 1, queue="a", priority=5)
    assert not schedule(cluster, replace(gang, preempts=False)).placements
    assert set(cluster.running_gangs) == {"own", "other"}
    assert schedule(cluster, gang).placements


def test_explanation_of_never_preempting_gang_names_no_victims() -> None:
    cluster = cluster_of(("n0", 1, ""))
    place = [("n0", (0,))]
    place_gang(cluster, running("guarded", place, preemptible=False), place)
    gang = pending("w", 1, 1, priority=5)
    for never in (False, True):
        asked = replace(gang, preempts=not never)
        reported = explain(
            cluster,
            default_scoring(),
            PlannerPolicy((ZONE,)),
            asked,
            InsufficientCapacity(),
            NOW,
        ).message
        assert ("not preemptible" in reported) != never, reported


def test_queue_deserving_only_cpu_uses_idle_gpus() -> None:
    cluster = cluster_of(("n0", 4, ""), queues=(QueueSpec("a", deserved={"cpu": 8000}),))
    assert schedule(cluster, pending("w", 1, 2, queue="a")).placements


@pytest.mark.parametrize("zone", [False, True], ids=["a pod", "a pod that needs one zone"])
@pytest.mark.parametrize(
    ("old", "new"),
    [(("n0", (0,)), ("n1", (0,))), (("n0", (0,)), ("n1", (0, 1)))],
    ids=["as many GPUs", "more GPUs for a short time"],
)
def test_victim_with_least_lost_work_is_evicted(
    old: tuple[str, tuple[int, ...]], new: tuple[str, tuple[int, ...]], zone: bool
) -> None:
    cluster = cluster_of(("n0", 1, "z"), ("n1", len(new[1]), "z"), ("n2", 0, "y"))
    place_gang(cluster, running("a-old", [old]), [old], age=100)
    place_gang(cluster, running("b-new", [new]), [new], age=10)
    assert evicted_gangs(schedule(cluster, pending("w", 1, 1, priority=1, zone=zone))) == ["b-new"]


def test_single_victim_must_cover_limit_excess() -> None:
    cluster = cluster_of(("n0", 8, ""), queues=(QueueSpec("q", limit={GPU: 4000}),))
    small, large = [("n0", (0,))], [("n0", (1, 2, 3))]
    place_gang(cluster, running("small", small, queue="q"), small, age=1)
    place_gang(cluster, running("large", large, queue="q"), large, age=100)
    plan = schedule(cluster, pending("w", 1, 2, queue="q", priority=1))
    assert evicted_gangs(plan) == ["large"]
    assert cluster.used.amounts_of("q")[GPU] == 3000


def test_pods_on_other_nodes_with_anti_affinity_are_evicted() -> None:
    cluster = cluster_of(("n0", 1, "z"), ("n1", 0, "z"))
    web = PodSelector(frozenset({"ns"}), (Requirement("app", "In", ("web",)),))
    apart = PodAffinityRules(anti_affinity=(AffinityTerm(web, ZONE),))
    loner = Member("ns/loner-0", replace(shape(0), pod_rules=apart))
    group = Group("loner", (), 1, placed_nodes=("n1",), placed_members=(loner,))
    place_gang(cluster, Gang("loner", (group,)), [("n1", ())], age=10)
    place = [("n0", (0,))]
    place_gang(cluster, running("a", place), place, age=10)
    gang = pending("w", 1, 1, priority=1, zone=True)
    member = replace(gang.groups[0].members[0], labels={"app": "web"})
    gang = replace(gang, groups=(replace(gang.groups[0], members=(member,)),))
    assert sorted(evicted_gangs(schedule(cluster, gang))) == ["a", "loner"]


class UniterableGangs(dict[str, RunningGang]):
    """Gangs that can be looked up, but not iterated over."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all gangs that run are looked at")

    keys = values = items = __iter__  # type: ignore[assignment]


@pytest.mark.parametrize("pods", [1, 2])
def test_unschedulable_gang_without_victims_scans_no_gangs(pods: int) -> None:
    queues = (QueueSpec("a", deserved={GPU: 1000}), QueueSpec("b", deserved={GPU: 1000}))
    cluster = cluster_of(("n0", 1, ""), ("n1", 1, ""), queues=queues)
    place_gang(cluster, running("s0", [("n0", (0,))], queue="a", priority=5), [("n0", (0,))])
    place_gang(cluster, running("s1", [("n1", (0,))], queue="b"), [("n1", (0,))])
    cluster.running_gangs = UniterableGangs(cluster.running_gangs.copy())
    assert not schedule(cluster, pending("w", pods, 1, queue="a", priority=5)).placements


class UnreadableCharges(dict[str, ResourceAmounts]):
    """Charges of a gang's pods that must not be read: no unit is built of them."""

    def __getitem__(self, pod: str) -> ResourceAmounts:
        raise AssertionError("a unit is made of a gang that is protected")


@pytest.mark.parametrize("pods", [1, 2])
@pytest.mark.parametrize("queue", ["a", "b"], ids=["preempt", "reclaim"])
@pytest.mark.parametrize("protection", ["too young", "disruption budget", "not preemptible"])
def test_no_eviction_units_are_built_for_protected_gangs(
    pods: int, queue: str, protection: str
) -> None:
    least = 100.0 if protection == "too young" else 0.0
    queues = tuple(
        QueueSpec(
            name,
            deserved={GPU: 4000 if name == "a" else 0},
            preempt_min_runtime=least,
            reclaim_min_runtime=least,
        )
        for name in ("a", "b")
    )
    cluster = cluster_of(("n0", 1, ""), ("n1", 1, ""), queues=queues)
    for name, where in (("s0", "n0"), ("s1", "n1")):
        gang = running(name, [(where, (0,))], queue=queue)
        if protection == "disruption budget":
            (group,) = gang.groups
            guarded = tuple(replace(each, budgets=("pdb",)) for each in group.placed_members)
            gang = replace(gang, groups=(replace(group, placed_members=guarded),))
        gang = replace(gang, preemptible=protection != "not preemptible")
        place_gang(cluster, gang, [(where, (0,))], age=50)
        cluster.running_gangs[name].pods = UnreadableCharges(cluster.running_gangs[name].pods)
    cluster.budgets["pdb"] = 0
    wanted = pending("w", pods, 1, queue="a", priority=5)
    assert not schedule(cluster, wanted).placements
    assert set(cluster.running_gangs) == {"s0", "s1"}


def test_plan_copies_no_unchanged_gang() -> None:
    cluster = cluster_of(("n0", 2, ""))
    place_gang(cluster, running("s0", [("n0", (0,))]), [("n0", (0,))])
    cluster.running_gangs = UniterableGangs(cluster.running_gangs.copy())
    plan = Planner(cluster, default_scoring()).plan([pending("w", 1, 1)], NOW)
    assert [placement.gang.name for placement in plan.placements] == ["w"]
    assert "w" not in cluster.running_gangs
    assert cluster.used.amounts_of("default")[GPU] == 1000


def test_plan_restores_evicted_gangs() -> None:
    cluster = cluster_of(("n0", 2, ""))
    places = [("n0", (0,)), ("n0", (1,))]
    place_gang(cluster, running("s0", places, 1), places)
    before = reference_model.facts(cluster)
    planner = Planner(cluster, default_scoring())
    for gpus in (1, 2):
        assert evicted_gangs(planner.plan([pending("w", 1, gpus, priority=1)], NOW)) == ["s0"]
        assert reference_model.facts(cluster) == before
        assert cluster.priorities == {"default": {0: 1}}
