"""Claimed devices are charged in queues like requested ones."""

from dataclasses import replace

import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.decisions import Plan
from kilonova.scheduler.core.dra.claims import ALL_DEVICES, ClaimRequest, DeviceRequestOption
from kilonova.scheduler.core.model.cluster import Cluster, gang_charges, shape_charges
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.ledger import LimitExceeded
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.dra.test_claim_cache import cluster_with_pool, shape
from tests.scheduler.core.support.clusters import tight
from tests.scheduler.core.support.reference_model import check_counts, facts

NIC = "example.com/nic"


def claim(
    count: int = 1, resource: str = GPU, name: str = "", *, admin: bool = False
) -> ClaimRequest:
    return ClaimRequest(
        ((DeviceRequestOption("gpu", count=count, admin=admin, resource=resource),),), name=name
    )


def gang_of(name: str, pods: int, *claims: ClaimRequest, minimum: int | None = None) -> Gang:
    """Pods with claims; claims without a name are each pod's own."""
    members = tuple(
        Member(
            f"ns/{name}-{pod}",
            shape(*claims),
            claims=tuple(
                request.name or f"ns/{name}-{pod}-{n}" for n, request in enumerate(claims)
            ),
        )
        for pod in range(pods)
    )
    needed = pods if minimum is None else minimum
    return Gang(name, (Group(name, members, needed),), queue="team")


def cluster_of(limit: int, **devices: int) -> Cluster:
    cluster = Cluster(build_queue_forest([QueueSpec("team", limit={GPU: limit * 1000})]))
    cluster.snapshot = cluster_with_pool(**devices)
    return cluster


def decide(cluster: Cluster, *gangs: Gang, now: float = 0.0) -> Plan:
    return Planner(cluster, tight).schedule(gangs, now)


@pytest.mark.parametrize(
    ("requested_claim", "counts"),
    [
        (claim(), {GPU: 1000}),
        (claim(3), {GPU: 3000}),
        (claim(2, NIC), {NIC: 2}),
        (claim(resource=""), {}),
        (claim(admin=True), {}),
        (claim(ALL_DEVICES), {GPU: 1000}),
        (
            ClaimRequest(
                (
                    (
                        DeviceRequestOption("r/a", count=2, resource=GPU),
                        DeviceRequestOption("r/b", resource=NIC),
                    ),
                )
            ),
            {GPU: 2000, NIC: 1},
        ),
    ],
)
def test_claim_is_charged_as_resource_of_its_class(
    requested_claim: ClaimRequest, counts: dict[str, int]
) -> None:
    assert shape_charges(shape(requested_claim)) == {"cpu": 1000, **counts}


def test_queue_limit_applies_to_claims() -> None:
    cluster = cluster_of(4, n1=8)
    plan = decide(cluster, gang_of("a", 3, claim()), gang_of("b", 2, claim()))
    assert [each.gang.name for each in plan.placements] == ["a"]
    assert plan.unschedulable[0].reason == LimitExceeded("team", GPU, 4000, 3000, 2000)
    assert cluster.used.amounts_of("team")[GPU] == 3000


def test_surplus_pods_stop_at_limit() -> None:
    cluster = cluster_of(4, n1=8)
    plan = decide(cluster, gang_of("a", 6, claim(), minimum=2))
    assert len(plan.placements[0].pods) == 4


def test_all_devices_are_charged_once_allocated() -> None:
    cluster = cluster_of(8, n1=8)
    assert decide(cluster, gang_of("a", 1, claim(ALL_DEVICES))).placements
    assert cluster.used.amounts_of("team")[GPU] == 8000


def test_request_for_all_devices_may_exceed_limit() -> None:
    cluster = cluster_of(6, n1=8)
    plan = decide(cluster, gang_of("a", 1, claim(ALL_DEVICES)))
    assert plan.unschedulable[0].reason == LimitExceeded("team", GPU, 6000, 0, 8000)
    assert not cluster.snapshot.placements


def test_no_pod_is_evicted_for_all_devices_above_limit() -> None:
    cluster = cluster_of(6, n1=8)
    decide(cluster, gang_of("low", 6, claim()))
    plan = decide(cluster, replace(gang_of("vip", 1, claim(ALL_DEVICES)), priority=5), now=100)
    assert isinstance(plan.unschedulable[0].reason, LimitExceeded)
    assert len(cluster.snapshot.placements) == 6


def test_higher_priority_claims_preempt_within_limit() -> None:
    cluster = cluster_of(4, n1=8)
    decide(cluster, gang_of("low", 4, claim()))
    plan = decide(cluster, replace(gang_of("vip", 2, claim()), priority=5), now=100)
    assert [unit.gang for unit in plan.placements[0].victims] == ["low"]


@pytest.mark.parametrize("reserve_after", [0.0, 300.0])
def test_victims_stay_when_shared_claim_would_exceed_limit(
    reserve_after: float,
) -> None:
    """The claim is charged to the victim while it runs; afterwards it would exceed the limit."""
    queues = [
        QueueSpec("team", deserved={GPU: 8000}, limit={GPU: 4000}),
        QueueSpec("other", deserved={GPU: 0}),
    ]
    cluster = Cluster(build_queue_forest(queues))
    cluster.snapshot = cluster_with_pool(n1=8)
    shared = claim(ALL_DEVICES, name="ns/shared")
    members = tuple(
        Member(f"ns/{name}", shape(shared, cpu=cpu), claims=("ns/shared",))
        for name, cpu in (("low", 40_000), ("vip", 50_000))
    )
    low, vip = (Gang(each.pod, (Group("g", (each,), 1),), queue="other") for each in members)
    decide(cluster, low)
    before = facts(cluster)
    planner = Planner(cluster, tight, PlannerPolicy(reserve_after=reserve_after))
    plan = planner.schedule([replace(vip, queue="team", priority=5)], 1000)
    assert plan.unschedulable[0].reason == LimitExceeded("team", GPU, 4000, 0, 8000)
    assert facts(cluster) == before
    assert cluster.running_gangs["ns/low"].since == 0.0
    check_counts(cluster.snapshot)


def test_shared_claim_is_charged_once() -> None:
    shared = claim(2, name="ns/shared")
    gang = gang_of("a", 3, shared, claim())
    assert gang_charges(gang)[GPU] == 5000
    cluster = cluster_of(5, n1=8)
    assert decide(cluster, gang).placements
    assert cluster.used.amounts_of("team")[GPU] == 5000


def test_shared_claim_is_charged_until_last_user_ends() -> None:
    cluster = cluster_of(8, n1=8)
    decide(cluster, gang_of("a", 3, claim(2, name="ns/shared")))
    for pod, left in (("ns/a-0", 2000), ("ns/a-2", 2000), ("ns/a-1", 0)):
        cluster.snapshot.remove_pods([pod])
        cluster.record_removed("a", [pod])
        assert cluster.used.amounts_of("team").get(GPU, 0) == left


def test_plan_leaves_no_claim_sharer_behind() -> None:
    cluster = cluster_of(8, n1=8)
    gang = gang_of("a", 3, claim(2, name="ns/shared"))
    assert Planner(cluster, tight).plan([gang], 0).placements
    decide(cluster, gang)
    assert cluster.used.amounts_of("team")[GPU] == 2000


def test_pod_joining_charged_claim_is_charged_nothing() -> None:
    cluster = cluster_of(2, n1=8)
    shared = claim(2, name="ns/shared")
    decide(cluster, gang_of("a", 2, shared))
    both = gang_of("a", 3, shared).groups[0].members
    more = Gang(
        "a",
        (Group("a", both[2:], 2, placed_nodes=("n1", "n1"), placed_members=both[:2]),),
        queue="team",
    )
    assert gang_charges(more, include_surplus=True).get(GPU, 0) == 0
    assert decide(cluster, more).placements
    assert cluster.used.amounts_of("team")[GPU] == 2000


def test_replacing_queues_recounts_same_charges() -> None:
    cluster = cluster_of(8, n1=8)
    decide(cluster, gang_of("a", 2, claim(2, name="ns/shared")))
    cluster.replace_queues(cluster.forest)
    assert cluster.used.amounts_of("team")[GPU] == 2000
    cluster.record_removed("a", ["ns/a-0"])
    assert cluster.used.amounts_of("team")[GPU] == 2000
