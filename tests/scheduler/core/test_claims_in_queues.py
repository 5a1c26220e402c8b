"""Devices that pods claim count in their queues, as those count that they request."""

from dataclasses import replace

import pytest

from kilonova.scheduler.core.claims import ALL, ClaimAsk, Option
from kilonova.scheduler.core.cluster import Cluster, asked, charged
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.ledgers import Blocked
from kilonova.scheduler.core.plan import Plan, Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.snapshot import GPU
from tests.scheduler.core.clusters import tight
from tests.scheduler.core.naive import check_counts, facts
from tests.scheduler.core.test_claimbook import shape, stage

NIC = "example.com/nic"


def claim(count: int = 1, resource: str = GPU, name: str = "", *, admin: bool = False) -> ClaimAsk:
    return ClaimAsk(((Option("gpu", count=count, admin=admin, resource=resource),),), name=name)


def gang_of(name: str, pods: int, *asks: ClaimAsk, minimum: int | None = None) -> Gang:
    """Pods with claims; those without a name are each pod's own."""
    members = tuple(
        Member(
            f"ns/{name}-{pod}",
            shape(*asks),
            claims=tuple(ask.name or f"ns/{name}-{pod}-{n}" for n, ask in enumerate(asks)),
        )
        for pod in range(pods)
    )
    needed = pods if minimum is None else minimum
    return Gang(name, (Group(name, members, needed),), queue="team")


def cluster_of(limit: int, **devices: int) -> Cluster:
    cluster = Cluster(forest_of([QueueSpec("team", limit={GPU: limit * 1000})]))
    cluster.snapshot = stage(**devices)
    return cluster


def decide(cluster: Cluster, *gangs: Gang, now: float = 0.0) -> Plan:
    return Planner(cluster, tight).decide(gangs, now)


@pytest.mark.parametrize(
    ("ask", "counts"),
    [
        (claim(), {GPU: 1000}),
        (claim(3), {GPU: 3000}),
        (claim(2, NIC), {NIC: 2}),
        (claim(resource=""), {}),
        (claim(admin=True), {}),
        (claim(ALL), {GPU: 1000}),
        (
            ClaimAsk(((Option("r/a", count=2, resource=GPU), Option("r/b", resource=NIC)),)),
            {GPU: 2000, NIC: 1},
        ),
    ],
)
def test_a_claim_counts_as_what_its_class_stands_for(ask: ClaimAsk, counts: dict[str, int]) -> None:
    assert charged(shape(ask)) == {"cpu": 1000, **counts}


def test_a_limit_holds_for_claims() -> None:
    cluster = cluster_of(4, n1=8)
    plan = decide(cluster, gang_of("a", 3, claim()), gang_of("b", 2, claim()))
    assert [each.gang.name for each in plan.placements] == ["a"]
    assert plan.refusals[0].why == Blocked("team", GPU, 4000, 3000, 2000)
    assert cluster.used.of("team")[GPU] == 3000


def test_extras_stop_at_the_limit() -> None:
    cluster = cluster_of(4, n1=8)
    plan = decide(cluster, gang_of("a", 6, claim(), minimum=2))
    assert len(plan.placements[0].bookings) == 4


def test_all_devices_of_a_node_count_when_they_are_known() -> None:
    cluster = cluster_of(8, n1=8)
    assert decide(cluster, gang_of("a", 1, claim(ALL))).placements
    assert cluster.used.of("team")[GPU] == 8000


def test_all_devices_of_a_node_may_be_more_than_the_limit() -> None:
    cluster = cluster_of(6, n1=8)
    plan = decide(cluster, gang_of("a", 1, claim(ALL)))
    assert plan.refusals[0].why == Blocked("team", GPU, 6000, 0, 8000)
    assert not cluster.snapshot.bookings


def test_nobody_goes_for_all_devices_above_the_limit() -> None:
    cluster = cluster_of(6, n1=8)
    decide(cluster, gang_of("low", 6, claim()))
    plan = decide(cluster, replace(gang_of("vip", 1, claim(ALL)), priority=5), now=100)
    assert isinstance(plan.refusals[0].why, Blocked)
    assert len(cluster.snapshot.bookings) == 6


def test_more_important_claims_make_room_under_the_limit() -> None:
    cluster = cluster_of(4, n1=8)
    decide(cluster, gang_of("low", 4, claim()))
    plan = decide(cluster, replace(gang_of("vip", 2, claim()), priority=5), now=100)
    assert [unit.gang for unit in plan.placements[0].evicted] == ["low"]


@pytest.mark.parametrize("reserve_after", [0.0, 300.0])
def test_victims_stay_whose_claim_counts_too_much_for_the_one_that_uses_it(
    reserve_after: float,
) -> None:
    """A claim counts with the victim as long as that is there, and then is above the limit."""
    queues = [
        QueueSpec("team", deserved={GPU: 8000}, limit={GPU: 4000}),
        QueueSpec("other", deserved={GPU: 0}),
    ]
    cluster = Cluster(forest_of(queues))
    cluster.snapshot = stage(n1=8)
    shared = claim(ALL, name="ns/shared")
    members = tuple(
        Member(f"ns/{name}", shape(shared, cpu=cpu), claims=("ns/shared",))
        for name, cpu in (("low", 40_000), ("vip", 50_000))
    )
    low, vip = (Gang(each.pod, (Group("g", (each,), 1),), queue="other") for each in members)
    decide(cluster, low)
    before = facts(cluster)
    planner = Planner(cluster, tight, Policy(reserve_after=reserve_after))
    plan = planner.decide([replace(vip, queue="team", priority=5)], 1000)
    assert plan.refusals[0].why == Blocked("team", GPU, 4000, 0, 8000)
    assert facts(cluster) == before
    assert cluster.standing["ns/low"].since == 0.0
    check_counts(cluster.snapshot)


def test_a_claim_that_pods_share_counts_once() -> None:
    shared = claim(2, name="ns/shared")
    gang = gang_of("a", 3, shared, claim())
    assert asked(gang)[GPU] == 5000
    cluster = cluster_of(5, n1=8)
    assert decide(cluster, gang).placements
    assert cluster.used.of("team")[GPU] == 5000


def test_a_shared_claim_counts_until_its_last_user_goes() -> None:
    cluster = cluster_of(8, n1=8)
    decide(cluster, gang_of("a", 3, claim(2, name="ns/shared")))
    for pod, left in (("ns/a-0", 2000), ("ns/a-2", 2000), ("ns/a-1", 0)):
        cluster.snapshot.release_all([pod])
        cluster.leave("a", [pod])
        assert cluster.used.of("team").get(GPU, 0) == left


def test_a_plan_leaves_no_sharer_behind() -> None:
    cluster = cluster_of(8, n1=8)
    gang = gang_of("a", 3, claim(2, name="ns/shared"))
    assert Planner(cluster, tight).plan([gang], 0).placements
    decide(cluster, gang)
    assert cluster.used.of("team")[GPU] == 2000


def test_who_joins_a_claim_that_counts_already_asks_for_nothing_more() -> None:
    cluster = cluster_of(2, n1=8)
    shared = claim(2, name="ns/shared")
    decide(cluster, gang_of("a", 2, shared))
    both = gang_of("a", 3, shared).groups[0].members
    more = Gang(
        "a", (Group("a", both[2:], 2, placed=("n1", "n1"), standing=both[:2]),), queue="team"
    )
    assert asked(more, wholly=True).get(GPU, 0) == 0
    assert decide(cluster, more).placements
    assert cluster.used.of("team")[GPU] == 2000


def test_other_queues_find_the_same_counted_anew() -> None:
    cluster = cluster_of(8, n1=8)
    decide(cluster, gang_of("a", 2, claim(2, name="ns/shared")))
    cluster.replace_queues(cluster.forest)
    assert cluster.used.of("team")[GPU] == 2000
    cluster.leave("a", ["ns/a-0"])
    assert cluster.used.of("team")[GPU] == 2000
