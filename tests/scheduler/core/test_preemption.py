"""Who is pushed out, in small worlds that were found by an exact search."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kilonova.scheduler.core.cluster import Cluster, Standing
from kilonova.scheduler.core.explaining import explain
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.peers import Kind, Peers, Term
from kilonova.scheduler.core.plan import NoRoom, Plan, Planner, Policy
from kilonova.scheduler.core.queues import Amounts, QueueSpec
from kilonova.scheduler.core.requirements import Requirement
from kilonova.scheduler.core.scores import default_scoring
from kilonova.scheduler.core.snapshot import GPU
from tests.scheduler.core import naive
from tests.scheduler.core.small_worlds import NOW, ZONE, node, pending, running, shape, stand


def cluster_of(*nodes: tuple[str, int, str], queues: tuple[QueueSpec, ...] = ()) -> Cluster:
    """Nodes by name, GPUs and zone."""
    cluster = Cluster(forest_of(queues))
    for name, gpus, zone in nodes:
        cluster.snapshot.put_node(node(name, gpus, zone))
    return cluster


def decide(cluster: Cluster, gang: Gang) -> Plan:
    return Planner(cluster, default_scoring(), Policy((ZONE,))).decide([gang], NOW)


def evicted(plan: Plan) -> list[str]:
    return [unit.gang for placement in plan.placements for unit in placement.evicted]


def test_a_queue_above_what_it_deserves_takes_nobody_elses_place() -> None:
    queues = (QueueSpec("a", deserved={GPU: 2000}), QueueSpec("b", deserved={GPU: 1000}))
    cluster = cluster_of(("n0", 2, ""), ("n1", 2, ""), ("n2", 3, ""), queues=queues)
    own = [("n0", (1,)), ("n1", (1,)), ("n0", (0,)), ("n2", (1,))]
    stand(cluster, running("own", own, 3, queue="a"), own, age=100)
    other = [("n2", (2,)), ("n2", (0,))]
    stand(cluster, running("other", other, queue="b", priority=1), other, age=10)
    last = [("n1", (0,))]
    stand(cluster, running("last", last, queue="b"), last, age=1)
    plan = decide(cluster, pending("w", 2, 1, queue="a", priority=2))
    assert evicted(plan) == ["own"]


def test_own_gangs_make_way_for_the_right_to_reclaim_and_really_go() -> None:
    queues = (QueueSpec("b", deserved={GPU: 2000}), QueueSpec("c", deserved={GPU: 0}))
    cluster = cluster_of(("n0", 1, ""), ("n2", 2, ""), queues=queues)
    stand(cluster, running("mine", [("n0", (0,))], queue="b"), [("n0", (0,))])
    stand(cluster, running("theirs", [("n2", (0, 1))], queue="c"), [("n2", (0, 1))])
    plan = decide(cluster, pending("w", 1, 2, queue="b", priority=3))
    assert sorted(evicted(plan)) == ["mine", "theirs"]
    assert cluster.used.of("b")[GPU] == 2000


def test_a_victim_stays_that_is_not_needed_with_other_devices() -> None:
    cluster = cluster_of(("n0", 4, "r"), ("n1", 4, ""))
    large = [("n1", (0,)), ("n1", (1,)), ("n1", (2,)), ("n0", (1,))]
    stand(cluster, running("keepme", large), large, age=100)
    enough = [("n0", (0, 3))]
    stand(cluster, running("enough", enough, priority=1), enough, age=40)
    plan = decide(cluster, pending("w", 3, 1, priority=2, zone=True))
    assert evicted(plan) == ["enough"]
    assert "keepme" in cluster.standing


def test_a_cheap_victim_does_not_use_up_the_right_to_the_one_that_is_needed() -> None:
    queues = (QueueSpec("a", deserved={GPU: 1000}), QueueSpec("b", deserved={GPU: 5000}))
    cluster = cluster_of(("n0", 1, "z0"), ("n1", 3, "z1"), queues=queues)
    cheap = [("n1", (0,)), ("n0", (0,))]
    stand(cluster, running("cheap", cheap, queue="a"), cheap)
    stand(cluster, running("needed", [("n1", (1, 2))], queue="a", priority=1), [("n1", (1, 2))])
    plan = decide(cluster, pending("w", 1, 2, queue="b", zone=True))
    assert evicted(plan) == ["needed"]


def test_a_queue_that_deserves_only_cpu_takes_no_gpus_that_another_deserves() -> None:
    queues = (
        QueueSpec("a", deserved={"cpu": 8000}),
        QueueSpec("b", deserved={GPU: 4000, "cpu": 1000}),
    )
    cluster = cluster_of(("n0", 4, ""), queues=queues)
    for name, devices in (("s0", (0, 1)), ("s1", (2, 3))):
        place = [("n0", devices)]
        stand(cluster, running(name, place, queue="b", cpu=2000), place, age=1000)
    assert not decide(cluster, pending("w", 1, 2, queue="a", cpu=2000)).placements
    assert set(cluster.standing) == {"s0", "s1"}


def test_a_gang_that_never_preempts_neither_preempts_nor_reclaims() -> None:
    queues = (QueueSpec("a", deserved={GPU: 2000}), QueueSpec("b"))
    cluster = cluster_of(("n0", 1, ""), ("n1", 1, ""), queues=queues)
    stand(cluster, running("own", [("n0", (0,))], queue="a"), [("n0", (0,))], age=10)
    stand(cluster, running("other", [("n1", (0,))], queue="b"), [("n1", (0,))], age=10)
    gang = pending("w", 1, 1, queue="a", priority=5)
    assert not decide(cluster, replace(gang, preempts=False)).placements
    assert set(cluster.standing) == {"own", "other"}
    assert decide(cluster, gang).placements


def test_why_names_nobody_whom_a_gang_that_never_preempts_could_push_out() -> None:
    cluster = cluster_of(("n0", 1, ""))
    place = [("n0", (0,))]
    stand(cluster, running("guarded", place, preemptible=False), place)
    gang = pending("w", 1, 1, priority=5)
    for never in (False, True):
        asked = replace(gang, preempts=not never)
        told = explain(cluster, default_scoring(), Policy((ZONE,)), asked, NoRoom(), NOW).message
        assert ("not preemptible" in told) != never, told


def test_a_queue_that_deserves_only_cpu_uses_idle_gpus() -> None:
    cluster = cluster_of(("n0", 4, ""), queues=(QueueSpec("a", deserved={"cpu": 8000}),))
    assert decide(cluster, pending("w", 1, 2, queue="a")).placements


@pytest.mark.parametrize("zone", [False, True], ids=["a pod", "a pod that needs one zone"])
@pytest.mark.parametrize(
    ("old", "new"),
    [(("n0", (0,)), ("n1", (0,))), (("n0", (0,)), ("n1", (0, 1)))],
    ids=["as many GPUs", "more GPUs for a short time"],
)
def test_who_loses_least_work_makes_way(
    old: tuple[str, tuple[int, ...]], new: tuple[str, tuple[int, ...]], zone: bool
) -> None:
    cluster = cluster_of(("n0", 1, "z"), ("n1", len(new[1]), "z"), ("n2", 0, "y"))
    stand(cluster, running("a-old", [old]), [old], age=100)
    stand(cluster, running("b-new", [new]), [new], age=10)
    assert evicted(decide(cluster, pending("w", 1, 1, priority=1, zone=zone))) == ["b-new"]


def test_only_who_frees_as_much_as_a_limit_is_exceeded_by_makes_way() -> None:
    cluster = cluster_of(("n0", 8, ""), queues=(QueueSpec("q", limit={GPU: 4000}),))
    small, large = [("n0", (0,))], [("n0", (1, 2, 3))]
    stand(cluster, running("small", small, queue="q"), small, age=1)
    stand(cluster, running("large", large, queue="q"), large, age=100)
    plan = decide(cluster, pending("w", 1, 2, queue="q", priority=1))
    assert evicted(plan) == ["large"]
    assert cluster.used.of("q")[GPU] == 3000


def test_pods_elsewhere_that_keep_a_pod_away_make_way() -> None:
    cluster = cluster_of(("n0", 1, "z"), ("n1", 0, "z"))
    web = Kind(frozenset({"ns"}), (Requirement("app", "In", ("web",)),))
    apart = Peers(apart=(Term(web, ZONE),))
    loner = Member("ns/loner-0", replace(shape(0), peers=apart))
    group = Group("loner", (), 1, placed=("n1",), standing=(loner,))
    stand(cluster, Gang("loner", (group,)), [("n1", ())], age=10)
    place = [("n0", (0,))]
    stand(cluster, running("a", place), place, age=10)
    gang = pending("w", 1, 1, priority=1, zone=True)
    member = replace(gang.groups[0].members[0], labels={"app": "web"})
    gang = replace(gang, groups=(replace(gang.groups[0], members=(member,)),))
    assert sorted(evicted(decide(cluster, gang))) == ["a", "loner"]


class Unlisted(dict[str, Standing]):
    """Gangs that may be looked up, but not all of them one after the other."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all gangs that run are looked at")

    keys = values = items = __iter__  # type: ignore[assignment]


@pytest.mark.parametrize("pods", [1, 2])
def test_a_rejection_looks_at_no_gang_where_nobody_may_be_evicted(pods: int) -> None:
    queues = (QueueSpec("a", deserved={GPU: 1000}), QueueSpec("b", deserved={GPU: 1000}))
    cluster = cluster_of(("n0", 1, ""), ("n1", 1, ""), queues=queues)
    stand(cluster, running("s0", [("n0", (0,))], queue="a", priority=5), [("n0", (0,))])
    stand(cluster, running("s1", [("n1", (0,))], queue="b"), [("n1", (0,))])
    cluster.standing = Unlisted(cluster.standing.copy())
    assert not decide(cluster, pending("w", pods, 1, queue="a", priority=5)).placements


class Unread(dict[str, Amounts]):
    """What pods of a gang count in its queue, which nobody adds up: no unit is made of them."""

    def __getitem__(self, pod: str) -> Amounts:
        raise AssertionError("a unit is made of a gang that is protected")


@pytest.mark.parametrize("pods", [1, 2])
@pytest.mark.parametrize("queue", ["a", "b"], ids=["preempt", "reclaim"])
@pytest.mark.parametrize("protection", ["too young", "disruption budget", "not preemptible"])
def test_a_rejection_makes_no_units_of_gangs_that_are_protected(
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
            guarded = tuple(replace(each, budgets=("pdb",)) for each in group.standing)
            gang = replace(gang, groups=(replace(group, standing=guarded),))
        gang = replace(gang, preemptible=protection != "not preemptible")
        stand(cluster, gang, [(where, (0,))], age=50)
        cluster.standing[name].pods = Unread(cluster.standing[name].pods)
    cluster.budgets["pdb"] = 0
    wanted = pending("w", pods, 1, queue="a", priority=5)
    assert not decide(cluster, wanted).placements
    assert set(cluster.standing) == {"s0", "s1"}


def test_a_plan_copies_no_gang_that_stays_as_it_is() -> None:
    cluster = cluster_of(("n0", 2, ""))
    stand(cluster, running("s0", [("n0", (0,))]), [("n0", (0,))])
    cluster.standing = Unlisted(cluster.standing.copy())
    plan = Planner(cluster, default_scoring()).plan([pending("w", 1, 1)], NOW)
    assert [placement.gang.name for placement in plan.placements] == ["w"]
    assert "w" not in cluster.standing
    assert cluster.used.of("default")[GPU] == 1000


def test_a_plan_gives_back_whom_it_pushed_out() -> None:
    cluster = cluster_of(("n0", 2, ""))
    places = [("n0", (0,)), ("n0", (1,))]
    stand(cluster, running("s0", places, 1), places)
    before = naive.facts(cluster)
    planner = Planner(cluster, default_scoring())
    for gpus in (1, 2):
        assert evicted(planner.plan([pending("w", 1, gpus, priority=1)], NOW)) == ["s0"]
        assert naive.facts(cluster) == before
        assert cluster.priorities == {"default": {0: 1}}
