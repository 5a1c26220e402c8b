"""Affinity, anti-affinity and spread: examples, and random clusters against a slow model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.filters.inter_pod_rules import (
    affinity_preference_scores,
    inter_pod_rejections,
    spread_preference_scores,
)
from kilonova.scheduler.core.filters.node_filters import FilterReason
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import (
    Gang,
    Group,
    Member,
    SegmentConstraint,
    single_pod_gang,
)
from kilonova.scheduler.core.model.nodes import Node, Taint
from kilonova.scheduler.core.model.pod_affinity import (
    WHOLE_CLUSTER,
    AffinityTerm,
    PodAffinityRules,
    PodSelector,
    TopologySpread,
)
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import NodeSelectorTerm, Shape, Toleration
from kilonova.scheduler.core.model.requirements import Requirement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.anti_affinity import (
    find_exclusive_level,
    limit_to_one_per_domain,
)
from kilonova.scheduler.core.placement.placer import Placer
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support.clusters import RACK, node, placer, shape, snapshot_of, tight

HOST, ZONE = "kubernetes.io/hostname", "zone"


def app(name: str, *namespaces: str, staying: bool = False) -> PodSelector:
    return PodSelector(
        frozenset(namespaces or ("ns",)),
        (Requirement("app", "In", (name,)),),
        excludes_terminating=staying,
    )


def pod(
    name: str,
    peers: PodAffinityRules | None = None,
    labels: Mapping[str, str] | None = None,
    *,
    gpus: int = 0,
    leaving: bool = False,
) -> Member:
    """`ns/web-0` is labelled app=web by default."""
    key = name if "/" in name else f"ns/{name}"
    own = {"app": key.partition("/")[2].partition("-")[0]} if labels is None else labels
    return Member(key, replace(shape(gpus), pod_rules=peers), own, terminating=leaving)


def zones(**count: int) -> Snapshot:
    """Nodes a0, a1… in zone a, and so on; nodes of zone `none` have no zone label."""
    return snapshot_of(
        *(
            labelled(f"{zone}{index}", {} if zone == "none" else {ZONE: zone})
            for zone, number in count.items()
            for index in range(number)
        )
    )


def labelled(name: str, labels: Mapping[str, str]) -> Node:
    return replace(node(name), labels={HOST: name, **labels})


def place_pod(snapshot: Snapshot, member: Member, name: str) -> None:
    snapshot.add_pod(PodPlacement(member, snapshot.row(name)))


def nodes_rejected_by_pods(snapshot: Snapshot, member: Member) -> dict[str, FilterReason]:
    """Nodes that inter-pod rules reject."""
    found = inter_pod_rejections(snapshot, member)
    if found is None:
        return {}
    return {snapshot.names[row]: FilterReason(reason) for row, reason in enumerate(found) if reason}


def node_names(snapshot: Snapshot, placements: list[PodPlacement] | None) -> list[str]:
    assert placements is not None
    return [snapshot.names[placement.row] for placement in placements]


def gang_of(
    *members: Member, minimum: int | None = None, segments: SegmentConstraint | None = None
) -> Gang:
    least = len(members) if minimum is None else minimum
    return Gang("gang", (Group("group", members, least, segments=segments),))


def test_pod_affinity_places_pod_beside_match() -> None:
    snapshot = zones(a=2, b=2, none=1)
    place_pod(snapshot, pod("db-0"), "a0")
    near = PodAffinityRules(affinity=(AffinityTerm(app("db"), ZONE),))
    assert set(nodes_rejected_by_pods(snapshot, pod("web-0", near))) == {"b0", "b1", "none0"}
    assert set(nodes_rejected_by_pods(snapshot, pod("web-0", near)).values()) == {
        FilterReason.POD_AFFINITY
    }


def test_one_pod_must_match_all_affinity_terms() -> None:
    snapshot = zones(a=1, b=1)
    place_pod(snapshot, pod("db-0"), "a0")
    place_pod(snapshot, pod("other", labels={"tier": "back"}), "a0")
    back = PodSelector(frozenset({"ns"}), (Requirement("tier", "In", ("back",)),))
    both = pod(
        "web-0",
        PodAffinityRules(affinity=(AffinityTerm(app("db"), ZONE), AffinityTerm(back, HOST))),
    )
    assert set(nodes_rejected_by_pods(snapshot, both)) == {"a0", "b0"}
    place_pod(snapshot, pod("db-1", labels={"app": "db", "tier": "back"}), "b0")
    assert set(nodes_rejected_by_pods(snapshot, both)) == {"a0"}


def test_first_pod_of_self_affinity_goes_anywhere_and_others_follow() -> None:
    snapshot = zones(a=2, b=2, none=1)
    own = PodAffinityRules(affinity=(AffinityTerm(app("web"), ZONE),), matches_own_affinity=True)
    assert set(nodes_rejected_by_pods(snapshot, pod("web-0", own))) == {"none0"}
    place_pod(snapshot, pod("web-0", own), "a0")
    assert set(nodes_rejected_by_pods(snapshot, pod("web-1", own))) == {"b0", "b1", "none0"}
    snapshot.remove_pod("ns/web-0")
    assert set(nodes_rejected_by_pods(snapshot, pod("web-1", own))) == {"none0"}


def test_pod_without_self_match_waits_for_affinity_target() -> None:
    snapshot = zones(a=1)
    assert set(
        nodes_rejected_by_pods(
            snapshot, pod("web-0", PodAffinityRules(affinity=(AffinityTerm(app("db"), ZONE),)))
        )
    ) == {"a0"}


def test_anti_affinity_holds_in_both_directions() -> None:
    snapshot = zones(a=2, b=1, none=1)
    lonely = PodAffinityRules(anti_affinity=(AffinityTerm(app("db"), ZONE),))
    place_pod(snapshot, pod("db-0"), "a0")
    assert nodes_rejected_by_pods(snapshot, pod("web-0", lonely)) == dict.fromkeys(
        ("a0", "a1"), FilterReason.POD_ANTI_AFFINITY
    )
    place_pod(snapshot, pod("web-0", lonely), "b0")
    assert nodes_rejected_by_pods(snapshot, pod("db-1")) == {
        "b0": FilterReason.EXISTING_POD_ANTI_AFFINITY
    }
    assert nodes_rejected_by_pods(snapshot, pod("cache-0")) == {}
    assert nodes_rejected_by_pods(snapshot, pod("elsewhere/db-1")) == {}


def test_affinity_term_selects_namespaces() -> None:
    snapshot = zones(a=1)
    place_pod(snapshot, pod("prod/db-0"), "a0")
    assert not nodes_rejected_by_pods(
        snapshot, pod("web-0", PodAffinityRules(anti_affinity=(AffinityTerm(app("db"), ZONE),)))
    )
    assert nodes_rejected_by_pods(
        snapshot,
        pod(
            "web-0", PodAffinityRules(anti_affinity=(AffinityTerm(app("db", "ns", "prod"), ZONE),))
        ),
    )
    everyone = PodSelector(None, ())
    assert nodes_rejected_by_pods(
        snapshot, pod("web-0", PodAffinityRules(anti_affinity=(AffinityTerm(everyone, ZONE),)))
    )
    nobody = PodSelector(None, None)
    assert not nodes_rejected_by_pods(
        snapshot, pod("web-0", PodAffinityRules(anti_affinity=(AffinityTerm(nobody, ZONE),)))
    )


def test_cluster_wide_rule_admits_one_pod() -> None:
    snapshot = zones(a=2, b=1, none=1)
    alone = PodAffinityRules(anti_affinity=(AffinityTerm(app("job"), WHOLE_CLUSTER),))
    assert placer(snapshot).place(single_pod_gang(pod("job-0", alone))) is not None
    assert set(nodes_rejected_by_pods(snapshot, pod("job-1", alone)).values()) == {
        FilterReason.VOLUME_IN_USE
    }
    assert placer(snapshot).place(single_pod_gang(pod("job-1", alone))) is None


@pytest.mark.parametrize(
    ("spread", "full"),
    [
        (TopologySpread(app("web"), ZONE), {"a0", "a1", "b0", "none0"}),
        (TopologySpread(app("web"), ZONE, max_skew=2), {"a0", "a1", "none0"}),
        (TopologySpread(app("web"), ZONE, max_skew=3), {"none0"}),
        (TopologySpread(app("web"), ZONE, matches_itself=False), {"a0", "a1", "none0"}),
        (TopologySpread(app("web"), ZONE, max_skew=2, matches_itself=False), {"none0"}),
        (TopologySpread(app("web"), ZONE, honors_taints=True), {"a0", "a1", "none0"}),
        (
            TopologySpread(app("web"), ZONE, honors_taints=True, min_domains=3),
            {"a0", "a1", "b0", "none0"},
        ),
        (TopologySpread(app("web"), ZONE, required=False), set[str]()),
    ],
)
def test_pods_spread_over_domains(spread: TopologySpread, full: set[str]) -> None:
    snapshot = zones(a=2, b=1, c=1, none=1)
    snapshot.put_node(
        Node("c0", {"pods": 10}, {ZONE: "c", HOST: "c0"}, (Taint("x", "NoSchedule"),))
    )
    for index, where in enumerate(("a0", "a1", "b0")):
        place_pod(snapshot, pod(f"web-{index}"), where)
    spread = replace(spread, selector=replace(spread.selector, excludes_terminating=True))
    assert (
        set(
            nodes_rejected_by_pods(
                snapshot, pod("web-9", PodAffinityRules(topology_spread=(spread,)))
            )
        )
        == full
    )


def test_infeasible_domains_do_not_count_for_spread() -> None:
    snapshot = zones(a=1, b=1, c=1)
    place_pod(snapshot, pod("web-0"), "a0")
    place_pod(snapshot, pod("web-1"), "b0")
    spread = TopologySpread(app("web"), ZONE)
    not_c = NodeSelectorTerm((Requirement(ZONE, "NotIn", ("c",)),))
    member = pod("web-2", PodAffinityRules(topology_spread=(spread,)))
    assert set(nodes_rejected_by_pods(snapshot, member)) == {"a0", "b0"}
    of_volume = replace(member, shape=replace(member.shape, required_node_terms=((not_c,),)))
    assert set(nodes_rejected_by_pods(snapshot, of_volume)) == {"a0", "b0"}
    own = PodAffinityRules(topology_spread=(spread,), has_node_affinity=True)
    assert not nodes_rejected_by_pods(
        snapshot, replace(member, shape=replace(of_volume.shape, pod_rules=own))
    )


def test_terminating_pods_do_not_count_for_spread_but_keep_anti_affinity() -> None:
    snapshot = zones(a=1, b=1)
    place_pod(snapshot, pod("web-0", leaving=True), "a0")
    spread = PodAffinityRules(topology_spread=(TopologySpread(app("web", staying=True), ZONE),))
    assert not nodes_rejected_by_pods(snapshot, pod("web-1", spread))
    assert nodes_rejected_by_pods(
        snapshot, pod("web-1", PodAffinityRules(anti_affinity=(AffinityTerm(app("web"), ZONE),)))
    ) == {"a0": FilterReason.POD_ANTI_AFFINITY}


def test_preferences_raise_node_scores() -> None:
    snapshot = zones(a=1, b=1, c=1)
    place_pod(snapshot, pod("db-0"), "a0")
    place_pod(snapshot, pod("noise-0"), "b0")
    rows = np.arange(3)
    likes = PodAffinityRules(
        preferred=((60, AffinityTerm(app("db"), ZONE)), (-20, AffinityTerm(app("noise"), ZONE)))
    )
    assert affinity_preference_scores(snapshot, pod("web-0", likes).shape, rows).tolist() == [
        100,
        0,
        25,
    ]
    assert affinity_preference_scores(snapshot, pod("web-0").shape, rows).tolist() == [0, 0, 0]


def test_preferred_spread_lowers_score_of_full_domains() -> None:
    snapshot = zones(a=1, b=1, c=1, none=1)
    for index, where in enumerate(("a0", "a0", "b0")):
        place_pod(snapshot, pod(f"web-{index}"), where)
    soft = PodAffinityRules(
        topology_spread=(TopologySpread(app("web", staying=True), ZONE, required=False),)
    )
    most, some = round(2 * log(5)), round(log(5))
    expected = [0, 100 * (most - some) / most, 100, 0]
    found = spread_preference_scores(snapshot, pod("web-9", soft).shape, np.arange(4))
    assert found.tolist() == pytest.approx(expected)


def test_preference_scores_follow_pods_on_other_nodes() -> None:
    snapshot = zones(a=2, b=2)
    feasibility = FeasibilityCache(snapshot, affinity_preference_scores)
    place = Placer(snapshot, feasibility).place
    likes = PodAffinityRules(preferred=((1, AffinityTerm(app("db"), ZONE)),))
    assert node_names(snapshot, place(single_pod_gang(pod("web-0", likes)))) == ["a0"]
    place_pod(snapshot, pod("db-0"), "b1")
    assert node_names(snapshot, place(single_pod_gang(pod("web-1", likes)))) == ["b0"]


def test_gang_with_anti_affinity_gets_node_each_or_nothing() -> None:
    snapshot = zones(a=2, b=2)
    apart = PodAffinityRules(anti_affinity=(AffinityTerm(app("web"), HOST),))
    four = [pod(f"web-{index}", apart) for index in range(4)]
    placed = placer(snapshot).place(gang_of(*four))
    assert sorted(node_names(snapshot, placed)) == ["a0", "a1", "b0", "b1"]
    snapshot.remove_pods([member.pod for member in four])
    assert placer(snapshot).place(gang_of(*four, pod("web-4", apart))) is None
    assert not snapshot.placements
    assert not snapshot.pod_counts.has_anti_affinity
    placed = placer(snapshot).place(gang_of(*four, pod("web-4", apart), minimum=2))
    assert len(node_names(snapshot, placed)) == 4


def test_gang_with_affinity_finds_domain_that_holds_it() -> None:
    snapshot = zones(a=1, b=2)
    place_pod(snapshot, pod("full-0", gpus=4), "a0")
    together = PodAffinityRules(
        affinity=(AffinityTerm(app("web"), ZONE),), matches_own_affinity=True
    )
    members = [pod(f"web-{index}", together, gpus=4) for index in range(3)]
    assert {
        name[0] for name in node_names(snapshot, placer(snapshot).place(gang_of(*members)))
    } == {"b"}


def test_gang_without_rules_respects_existing_anti_affinity() -> None:
    snapshot = zones(a=2, b=1)
    place_pod(
        snapshot,
        pod("lonely-0", PodAffinityRules(anti_affinity=(AffinityTerm(app("web"), ZONE),))),
        "a0",
    )
    members = [pod(f"web-{index}") for index in range(4)]
    assert set(node_names(snapshot, placer(snapshot).place(gang_of(*members)))) == {"b0"}
    mixed = [pod("x-0", labels={"app": "web"}), pod("x-1", labels={"app": "free"}, gpus=8)]
    assert node_names(snapshot, placer(snapshot).place(gang_of(*mixed))) == ["b0", "a0"]


def test_members_partly_under_anti_affinity_are_placed_sequentially() -> None:
    snapshot = zones(a=1, b=1)
    place_pod(
        snapshot,
        pod("lonely-0", PodAffinityRules(anti_affinity=(AffinityTerm(app("web"), ZONE),))),
        "a0",
    )
    place_pod(snapshot, pod("large-0", gpus=7), "b0")
    mixed = [
        pod("x-0", labels={"app": "free"}, gpus=1),
        pod("x-1", labels={"app": "web"}, gpus=1),
    ]
    assert placer(snapshot).place(gang_of(*reversed(mixed))) is not None


def test_segments_of_pods_with_rules_stay_within_a_domain() -> None:
    snapshot = snapshot_of(*(labelled(f"n{i}", {RACK: f"r{i // 2}"}) for i in range(4)))
    apart = PodAffinityRules(anti_affinity=(AffinityTerm(app("web"), HOST),))
    members = [pod(f"web-{index}", apart) for index in range(4)]
    placed = placer(snapshot).place(gang_of(*members, segments=SegmentConstraint(2, RACK)))
    racks = [
        snapshot.node(snapshot.row(name)).labels[RACK] for name in node_names(snapshot, placed)
    ]
    assert racks[0] == racks[1] != racks[2] == racks[3]


def test_copy_counts_pods_independently() -> None:
    snapshot = zones(a=1, b=1)
    apart = PodAffinityRules(anti_affinity=(AffinityTerm(app("web"), ZONE),))
    place_pod(snapshot, pod("web-0", apart), "a0")
    other = snapshot.copy()
    other.remove_pod("ns/web-0")
    assert set(nodes_rejected_by_pods(snapshot, pod("web-1", apart))) == {"a0"}
    assert not nodes_rejected_by_pods(other, pod("web-1", apart))


def planner_of(snapshot: Snapshot, policy: PlannerPolicy | None = None) -> Planner:
    cluster = Cluster()
    cluster.snapshot = snapshot
    return Planner(cluster, tight, policy)


def test_victim_conflicting_by_affinity_rule_is_not_restored() -> None:
    planner = planner_of(zones(a=1))
    weak = [
        replace(single_pod_gang(pod("other-0", gpus=1)), name="other"),
        replace(single_pod_gang(pod("web-0", gpus=1)), name="web"),
    ]
    planner.schedule(weak, 0)
    apart = PodAffinityRules(anti_affinity=(AffinityTerm(app("web"), HOST),))
    strong = replace(gang_of(pod("db-0", apart), pod("db-1", apart)), priority=5)
    plan = planner.schedule([strong], 10)
    assert [unit.gang for unit in plan.placements[0].victims] == ["web"]


def test_gang_without_affinity_target_is_retried_when_one_is_placed() -> None:
    planner = planner_of(zones(a=1))
    near = PodAffinityRules(affinity=(AffinityTerm(app("db"), ZONE),))
    early = replace(single_pod_gang(pod("web-0", near), priority=2), name="early")
    db = replace(single_pod_gang(pod("db-0"), priority=1), name="db")
    late = replace(single_pod_gang(pod("web-1", near)), name="late")
    plan = planner.schedule([early, db, late], 0)
    assert [placement.gang.name for placement in plan.placements] == ["db", "late"]


def test_backfill_respects_anti_affinity_of_reserved_gang() -> None:
    planner = planner_of(zones(a=1), PlannerPolicy(preemption_enabled=False, reserve_after=0))
    runs = replace(single_pod_gang(pod("runs-0", gpus=8)), name="runs", duration=100.0)
    planner.schedule([runs], 0)
    quiet = PodAffinityRules(anti_affinity=(AffinityTerm(app("noise"), ZONE),))
    waits = replace(single_pod_gang(pod("quiet-0", quiet, gpus=8), priority=9), name="waits")
    others = [replace(single_pod_gang(pod(f"{name}-0")), name=name) for name in ("noise", "calm")]
    plan = planner.schedule([waits, *others], 10)
    assert plan.backfill_reservation is not None
    assert [placement.gang.name for placement in plan.placements] == ["calm"]


@pytest.mark.parametrize(
    ("peers", "level"),
    [
        (None, ""),
        (PodAffinityRules(anti_affinity=(AffinityTerm(app("web"), HOST),)), HOST),
        (
            PodAffinityRules(
                anti_affinity=(AffinityTerm(app("web"), HOST), AffinityTerm(app("db"), ZONE))
            ),
            HOST,
        ),
        (PodAffinityRules(anti_affinity=(AffinityTerm(app("db"), ZONE),)), ""),
        (
            PodAffinityRules(
                anti_affinity=(AffinityTerm(app("web"), HOST), AffinityTerm(app("web"), ZONE))
            ),
            None,
        ),
        (PodAffinityRules(affinity=(AffinityTerm(app("web"), ZONE),)), None),
        (PodAffinityRules(topology_spread=(TopologySpread(app("web"), ZONE),)), None),
        (PodAffinityRules(preferred=((1, AffinityTerm(app("web"), ZONE)),)), None),
    ],
)
def test_pure_self_anti_affinity_is_detected(
    peers: PodAffinityRules | None, level: str | None
) -> None:
    assert find_exclusive_level([pod(f"web-{index}", peers) for index in range(3)]) == level


def test_partial_anti_affinity_is_not_uniform() -> None:
    peers = PodAffinityRules(anti_affinity=(AffinityTerm(app("web"), HOST),))
    assert find_exclusive_level([pod("web-0", peers), pod("x-0", peers, {"app": "x"})]) is None


def test_each_domain_takes_one_pod_on_best_row() -> None:
    snapshot = zones(a=2, b=2, none=1)
    capacity = np.array([0, 5, 5, 5, 7])
    keys = np.array([9, 1, 2, 3, 4])
    one = limit_to_one_per_domain(snapshot, ZONE, np.arange(5), capacity, keys)
    assert one.tolist() == [0, 1, 0, 1, 7]


# Random clusters


@dataclass(frozen=True)
class PlacedPod:
    member: Member
    node: str


def domain(where: Node, level: str) -> str | None:
    return "" if level == WHOLE_CLUSTER else where.labels.get(level)


def matches_selector(kind: PodSelector, member: Member) -> bool:
    namespace = member.pod.split("/")[0]
    return kind.matches(namespace, member.labels, terminating=member.terminating)


def slow_rejection(
    nodes: Mapping[str, Node], placed: list[PlacedPod], member: Member, where: Node
) -> FilterReason:
    """The rules, node by node and pod by pod."""
    peers = member.shape.pod_rules or PodAffinityRules()

    def beside(level: str) -> list[Member]:
        here = domain(where, level)
        return [
            one.member
            for one in placed
            if here is not None and domain(nodes[one.node], level) == here
        ]

    hard = [spread for spread in peers.topology_spread if spread.required]
    for spread in hard:
        if spread.level not in where.labels:
            return FilterReason.SPREAD
        sizes: dict[str, int] = {}
        for each in nodes.values():
            if any(other.level not in each.labels for other in hard):
                continue
            if spread.honors_node_affinity and any(
                each.labels.get(key) != value for key, value in member.shape.node_selector
            ):
                continue
            if spread.honors_taints and each.taints and not member.shape.tolerations:
                continue
            count = sum(
                matches_selector(spread.selector, one.member)
                for one in placed
                if one.node == each.name
            )
            value = each.labels[spread.level]
            sizes[value] = sizes.get(value, 0) + count
        least = min(sizes.values()) if len(sizes) >= max(1, spread.min_domains) else 0
        there = sizes.get(where.labels[spread.level], 0)
        if there + spread.matches_itself - least > spread.max_skew:
            return FilterReason.SPREAD
    if peers.affinity:
        if any(domain(where, term.level) is None for term in peers.affinity):
            return FilterReason.POD_AFFINITY

        def meets_all(other: Member) -> bool:
            return all(matches_selector(term.selector, other) for term in peers.affinity)

        if not all(any(map(meets_all, beside(term.level))) for term in peers.affinity):
            anywhere = any(
                meets_all(one.member) and domain(nodes[one.node], term.level) is not None
                for one in placed
                for term in peers.affinity
            )
            if anywhere or not peers.matches_own_affinity:
                return FilterReason.POD_AFFINITY
    for term in peers.anti_affinity:
        if any(matches_selector(term.selector, other) for other in beside(term.level)):
            return (
                FilterReason.VOLUME_IN_USE
                if term.level == WHOLE_CLUSTER
                else FilterReason.POD_ANTI_AFFINITY
            )
    found = FilterReason.FITS
    for one in placed:
        for term in one.member.shape.pod_rules.anti_affinity if one.member.shape.pod_rules else ():
            here = domain(where, term.level)
            there = domain(nodes[one.node], term.level)
            if matches_selector(term.selector, member) and here is not None and here == there:
                found = (
                    FilterReason.EXISTING_POD_ANTI_AFFINITY
                    if term.level != WHOLE_CLUSTER
                    else FilterReason.VOLUME_IN_USE
                )
    return found


requirements = st.one_of(
    st.builds(
        lambda key, values: Requirement(key, "In", tuple(values)),
        st.sampled_from("xy"),
        st.lists(st.sampled_from("12"), min_size=1, max_size=2, unique=True),
    ),
    st.builds(lambda key: Requirement(key, "NotIn", ("1",)), st.sampled_from("xy")),
    st.builds(lambda key: Requirement(key, "Exists"), st.sampled_from("xy")),
    st.builds(lambda key: Requirement(key, "DoesNotExist"), st.sampled_from("xy")),
)
kinds = st.builds(
    PodSelector,
    st.sampled_from([None, frozenset({"p"}), frozenset({"p", "q"}), frozenset[str]()]),
    st.none() | st.lists(requirements, max_size=2).map(tuple),
    st.booleans(),
)
levels = st.sampled_from([HOST, ZONE])
terms = st.builds(AffinityTerm, kinds, levels)
spreads = st.builds(
    TopologySpread,
    kinds,
    levels,
    st.integers(1, 2),
    st.booleans(),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
rules = st.none() | st.builds(
    PodAffinityRules,
    st.lists(terms, max_size=2).map(tuple),
    st.lists(terms, max_size=2).map(tuple),
    st.just(()),
    st.lists(spreads, max_size=2).map(tuple),
    st.booleans(),
)
shapes = st.builds(
    lambda peers, selector, tolerant: Shape(
        (("pods", 1),),
        node_selector=selector,
        tolerations=(Toleration(operator="Exists"),) if tolerant else (),
        pod_rules=peers,
    ),
    rules,
    st.sampled_from([(), (), ((ZONE, "a"),)]),
    st.booleans(),
)
pods = st.builds(
    lambda namespace, shape_, labels, leaving: (namespace, shape_, labels, leaving),
    st.sampled_from("pq"),
    shapes,
    st.dictionaries(st.sampled_from("xy"), st.sampled_from("12")),
    st.booleans(),
)
clusters = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.booleans(), st.booleans()),
    min_size=1,
    max_size=5,
)


def cluster_of(facts: list[tuple[str | None, bool, bool]]) -> dict[str, Node]:
    nodes: dict[str, Node] = {}
    for index, (zone, named, tainted) in enumerate(facts):
        labels = {} if zone is None else {ZONE: zone}
        if named:
            labels[HOST] = f"n{index}"
        taints = (Taint("t", "NoSchedule"),) if tainted else ()
        nodes[f"n{index}"] = Node(f"n{index}", {"pods": 99}, labels, taints)
    return nodes


@settings(max_examples=limit_examples(150))
@given(st.data(), clusters)
def test_rejection_vectors_match_slow_model(
    data: st.DataObject, facts: list[tuple[str | None, bool, bool]]
) -> None:
    nodes = cluster_of(facts)
    snapshot = snapshot_of(*nodes.values())
    placed: list[PlacedPod] = []
    for number in range(data.draw(st.integers(1, 8))):
        namespace, asked, labels, leaving = data.draw(pods)
        member = Member(f"{namespace}/pod-{number}", asked, labels, terminating=leaving)
        expected = {
            name: reason
            for name, each in nodes.items()
            if (reason := slow_rejection(nodes, placed, member, each))
        }
        assert nodes_rejected_by_pods(snapshot, member) == expected
        where = data.draw(st.sampled_from(sorted(nodes)))
        action = data.draw(st.sampled_from(["stay", "stay", "stay", "try", "go"]))
        if action == "try":
            trial = snapshot.begin_trial()
            place_pod(snapshot, member, where)
            snapshot.remove_pod(member.pod)
            place_pod(snapshot, replace(member, terminating=not leaving), sorted(nodes)[0])
            snapshot.rollback(trial)
        elif action == "go" and placed:
            snapshot.remove_pod(placed.pop(0).member.pod)
        else:
            place_pod(snapshot, member, where)
            placed.append(PlacedPod(member, where))


@settings(max_examples=limit_examples(100))
@given(st.lists(pods, min_size=1, max_size=4), clusters)
def test_placed_gang_violates_no_rule(
    drawn: list[tuple[str, Shape, dict[str, str], bool]],
    facts: list[tuple[str | None, bool, bool]],
) -> None:
    nodes = cluster_of(facts)
    snapshot = snapshot_of(*nodes.values())
    members = [
        Member(f"{namespace}/pod-{number}", asked, labels)
        for number, (namespace, asked, labels, _) in enumerate(drawn)
    ]
    placed = Placer(snapshot, FeasibilityCache(snapshot, tight)).place(gang_of(*members))
    if placed is None:
        assert not snapshot.placements
        return
    placed_pods: list[PlacedPod] = []
    for placement in snapshot.placements.values():  # in the order in which they were placed
        member, where = placement.member, snapshot.names[placement.row]
        if member.shape.pod_rules is not None:
            assert not slow_rejection(nodes, placed_pods, member, nodes[where])
        placed_pods.append(PlacedPod(member, where))
