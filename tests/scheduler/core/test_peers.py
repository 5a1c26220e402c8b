"""Rules about other pods: examples, and random clusters against a slow model of the rules."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.asks import NodeTerm, Shape, Toleration
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.filters import Reason
from kilonova.scheduler.core.gangs import Gang, Group, Member, Segments, single
from kilonova.scheduler.core.nearness import attraction, evenness, objections
from kilonova.scheduler.core.nodes import Node, Taint
from kilonova.scheduler.core.peers import EVERYWHERE, Kind, Peers, Spread, Term
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.requirements import Requirement
from kilonova.scheduler.core.rivals import kept_apart, one_per_domain
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Booking, Snapshot
from tests.scheduler.core.clusters import RACK, node, placer, shape, snapshot_of, tight

HOST, ZONE = "kubernetes.io/hostname", "zone"


def app(name: str, *namespaces: str, staying: bool = False) -> Kind:
    return Kind(
        frozenset(namespaces or ("ns",)), (Requirement("app", "In", (name,)),), staying=staying
    )


def pod(
    name: str,
    peers: Peers | None = None,
    labels: Mapping[str, str] | None = None,
    *,
    gpus: int = 0,
    leaving: bool = False,
) -> Member:
    """`ns/web-0` is labelled app=web unless it is said otherwise."""
    key = name if "/" in name else f"ns/{name}"
    own = {"app": key.partition("/")[2].partition("-")[0]} if labels is None else labels
    return Member(key, replace(shape(gpus), peers=peers), own, leaving=leaving)


def zones(**count: int) -> Snapshot:
    """Nodes a0, a1… in zone a, and so on; those of zone `none` carry no zone."""
    return snapshot_of(
        *(
            labelled(f"{zone}{index}", {} if zone == "none" else {ZONE: zone})
            for zone, number in count.items()
            for index in range(number)
        )
    )


def labelled(name: str, labels: Mapping[str, str]) -> Node:
    return replace(node(name), labels={HOST: name, **labels})


def stand(snapshot: Snapshot, member: Member, name: str) -> None:
    snapshot.book(Booking(member, snapshot.row(name)))


def refused(snapshot: Snapshot, member: Member) -> dict[str, Reason]:
    """Nodes on which others do not let a pod stand."""
    found = objections(snapshot, member)
    if found is None:
        return {}
    return {snapshot.names[row]: Reason(reason) for row, reason in enumerate(found) if reason}


def seats(snapshot: Snapshot, bookings: list[Booking] | None) -> list[str]:
    assert bookings is not None
    return [snapshot.names[booking.row] for booking in bookings]


def gang_of(*members: Member, minimum: int | None = None, segments: Segments | None = None) -> Gang:
    least = len(members) if minimum is None else minimum
    return Gang("gang", (Group("group", members, least, segments=segments),))


def test_a_pod_stands_where_one_stands_that_it_wants_near() -> None:
    snapshot = zones(a=2, b=2, none=1)
    stand(snapshot, pod("db-0"), "a0")
    near = Peers(near=(Term(app("db"), ZONE),))
    assert set(refused(snapshot, pod("web-0", near))) == {"b0", "b1", "none0"}
    assert set(refused(snapshot, pod("web-0", near)).values()) == {Reason.POD_AFFINITY}


def test_of_several_terms_one_pod_must_meet_all() -> None:
    snapshot = zones(a=1, b=1)
    stand(snapshot, pod("db-0"), "a0")
    stand(snapshot, pod("other", labels={"tier": "back"}), "a0")
    back = Kind(frozenset({"ns"}), (Requirement("tier", "In", ("back",)),))
    both = pod("web-0", Peers(near=(Term(app("db"), ZONE), Term(back, HOST))))
    assert set(refused(snapshot, both)) == {"a0", "b0"}
    stand(snapshot, pod("db-1", labels={"app": "db", "tier": "back"}), "b0")
    assert set(refused(snapshot, both)) == {"a0"}


def test_the_first_of_a_kind_may_stand_anywhere_in_the_level_and_the_others_follow() -> None:
    snapshot = zones(a=2, b=2, none=1)
    own = Peers(near=(Term(app("web"), ZONE),), first_of_kind=True)
    assert set(refused(snapshot, pod("web-0", own))) == {"none0"}
    stand(snapshot, pod("web-0", own), "a0")
    assert set(refused(snapshot, pod("web-1", own))) == {"b0", "b1", "none0"}
    snapshot.release("ns/web-0")
    assert set(refused(snapshot, pod("web-1", own))) == {"none0"}


def test_a_pod_that_is_not_what_it_wants_near_waits_for_it() -> None:
    snapshot = zones(a=1)
    assert set(refused(snapshot, pod("web-0", Peers(near=(Term(app("db"), ZONE),))))) == {"a0"}


def test_pods_keep_apart_in_both_directions() -> None:
    snapshot = zones(a=2, b=1, none=1)
    lonely = Peers(apart=(Term(app("db"), ZONE),))
    stand(snapshot, pod("db-0"), "a0")
    assert refused(snapshot, pod("web-0", lonely)) == dict.fromkeys(
        ("a0", "a1"), Reason.POD_ANTI_AFFINITY
    )
    stand(snapshot, pod("web-0", lonely), "b0")
    assert refused(snapshot, pod("db-1")) == {"b0": Reason.REPELLED}
    assert refused(snapshot, pod("cache-0")) == {}
    assert refused(snapshot, pod("elsewhere/db-1")) == {}


def test_a_rule_may_be_about_other_namespaces_or_all() -> None:
    snapshot = zones(a=1)
    stand(snapshot, pod("prod/db-0"), "a0")
    assert not refused(snapshot, pod("web-0", Peers(apart=(Term(app("db"), ZONE),))))
    assert refused(snapshot, pod("web-0", Peers(apart=(Term(app("db", "ns", "prod"), ZONE),))))
    everyone = Kind(None, ())
    assert refused(snapshot, pod("web-0", Peers(apart=(Term(everyone, ZONE),))))
    nobody = Kind(None, None)
    assert not refused(snapshot, pod("web-0", Peers(apart=(Term(nobody, ZONE),))))


def test_a_rule_about_the_whole_cluster_lets_one_pod_in() -> None:
    snapshot = zones(a=2, b=1, none=1)
    alone = Peers(apart=(Term(app("job"), EVERYWHERE),))
    assert placer(snapshot).place(single(pod("job-0", alone))) is not None
    assert set(refused(snapshot, pod("job-1", alone)).values()) == {Reason.VOLUME_IN_USE}
    assert placer(snapshot).place(single(pod("job-1", alone))) is None


@pytest.mark.parametrize(
    ("spread", "full"),
    [
        (Spread(app("web"), ZONE), {"a0", "a1", "b0", "none0"}),
        (Spread(app("web"), ZONE, most=2), {"a0", "a1", "none0"}),
        (Spread(app("web"), ZONE, most=3), {"none0"}),
        (Spread(app("web"), ZONE, counts_itself=False), {"a0", "a1", "none0"}),
        (Spread(app("web"), ZONE, most=2, counts_itself=False), {"none0"}),
        (Spread(app("web"), ZONE, by_taints=True), {"a0", "a1", "none0"}),
        (Spread(app("web"), ZONE, by_taints=True, least_domains=3), {"a0", "a1", "b0", "none0"}),
        (Spread(app("web"), ZONE, required=False), set[str]()),
    ],
)
def test_pods_spread_over_domains(spread: Spread, full: set[str]) -> None:
    snapshot = zones(a=2, b=1, c=1, none=1)
    snapshot.put_node(
        Node("c0", {"pods": 10}, {ZONE: "c", HOST: "c0"}, (Taint("x", "NoSchedule"),))
    )
    for index, where in enumerate(("a0", "a1", "b0")):
        stand(snapshot, pod(f"web-{index}"), where)
    spread = replace(spread, kind=replace(spread.kind, staying=True))
    assert set(refused(snapshot, pod("web-9", Peers(spreads=(spread,))))) == full


def test_domains_that_a_pod_may_not_use_do_not_hold_it_back() -> None:
    snapshot = zones(a=1, b=1, c=1)
    stand(snapshot, pod("web-0"), "a0")
    stand(snapshot, pod("web-1"), "b0")
    spread = Spread(app("web"), ZONE)
    not_c = NodeTerm((Requirement(ZONE, "NotIn", ("c",)),))
    member = pod("web-2", Peers(spreads=(spread,)))
    assert set(refused(snapshot, member)) == {"a0", "b0"}
    of_volume = replace(member, shape=replace(member.shape, one_of=((not_c,),)))
    assert set(refused(snapshot, of_volume)) == {"a0", "b0"}
    own = Peers(spreads=(spread,), own_affinity=True)
    assert not refused(snapshot, replace(member, shape=replace(of_volume.shape, peers=own)))


def test_pods_that_leave_do_not_count_for_a_spread_but_still_repel() -> None:
    snapshot = zones(a=1, b=1)
    stand(snapshot, pod("web-0", leaving=True), "a0")
    spread = Peers(spreads=(Spread(app("web", staying=True), ZONE),))
    assert not refused(snapshot, pod("web-1", spread))
    assert refused(snapshot, pod("web-1", Peers(apart=(Term(app("web"), ZONE),)))) == {
        "a0": Reason.POD_ANTI_AFFINITY
    }


def test_wishes_make_some_nodes_better() -> None:
    snapshot = zones(a=1, b=1, c=1)
    stand(snapshot, pod("db-0"), "a0")
    stand(snapshot, pod("noise-0"), "b0")
    rows = np.arange(3)
    likes = Peers(liked=((60, Term(app("db"), ZONE)), (-20, Term(app("noise"), ZONE))))
    assert attraction(snapshot, pod("web-0", likes).shape, rows).tolist() == [100, 0, 25]
    assert attraction(snapshot, pod("web-0").shape, rows).tolist() == [0, 0, 0]


def test_a_soft_spread_makes_full_domains_worse() -> None:
    snapshot = zones(a=1, b=1, c=1, none=1)
    for index, where in enumerate(("a0", "a0", "b0")):
        stand(snapshot, pod(f"web-{index}"), where)
    soft = Peers(spreads=(Spread(app("web", staying=True), ZONE, required=False),))
    most, some = round(2 * log(5)), round(log(5))
    expected = [0, 100 * (most - some) / most, 100, 0]
    found = evenness(snapshot, pod("web-9", soft).shape, np.arange(4))
    assert found.tolist() == pytest.approx(expected)


def test_wishes_are_looked_at_anew_when_pods_came_elsewhere() -> None:
    snapshot = zones(a=2, b=2)
    rooms = Rooms(snapshot, attraction)
    place = Placer(snapshot, rooms).place
    likes = Peers(liked=((1, Term(app("db"), ZONE)),))
    assert seats(snapshot, place(single(pod("web-0", likes)))) == ["a0"]
    stand(snapshot, pod("db-0"), "b1")
    assert seats(snapshot, place(single(pod("web-1", likes)))) == ["b0"]


def test_a_gang_whose_pods_keep_apart_gets_a_node_each_or_nothing() -> None:
    snapshot = zones(a=2, b=2)
    apart = Peers(apart=(Term(app("web"), HOST),))
    four = [pod(f"web-{index}", apart) for index in range(4)]
    placed = placer(snapshot).place(gang_of(*four))
    assert sorted(seats(snapshot, placed)) == ["a0", "a1", "b0", "b1"]
    snapshot.release_all([member.pod for member in four])
    assert placer(snapshot).place(gang_of(*four, pod("web-4", apart))) is None
    assert not snapshot.bookings
    assert not snapshot.neighbours.repels
    placed = placer(snapshot).place(gang_of(*four, pod("web-4", apart), minimum=2))
    assert len(seats(snapshot, placed)) == 4


def test_a_gang_that_wants_to_be_together_finds_the_domain_that_holds_it() -> None:
    snapshot = zones(a=1, b=2)
    stand(snapshot, pod("full-0", gpus=4), "a0")
    together = Peers(near=(Term(app("web"), ZONE),), first_of_kind=True)
    members = [pod(f"web-{index}", together, gpus=4) for index in range(3)]
    assert {name[0] for name in seats(snapshot, placer(snapshot).place(gang_of(*members)))} == {"b"}


def test_a_gang_of_pods_without_rules_keeps_away_from_those_that_want_it() -> None:
    snapshot = zones(a=2, b=1)
    stand(snapshot, pod("lonely-0", Peers(apart=(Term(app("web"), ZONE),))), "a0")
    members = [pod(f"web-{index}") for index in range(4)]
    assert set(seats(snapshot, placer(snapshot).place(gang_of(*members)))) == {"b0"}
    mixed = [pod("x-0", labels={"app": "web"}), pod("x-1", labels={"app": "free"}, gpus=8)]
    assert seats(snapshot, placer(snapshot).place(gang_of(*mixed))) == ["b0", "a0"]


def test_members_of_one_shape_of_which_some_are_kept_away_are_placed_one_by_one() -> None:
    snapshot = zones(a=1, b=1)
    stand(snapshot, pod("lonely-0", Peers(apart=(Term(app("web"), ZONE),))), "a0")
    stand(snapshot, pod("large-0", gpus=7), "b0")
    mixed = [
        pod("x-0", labels={"app": "free"}, gpus=1),
        pod("x-1", labels={"app": "web"}, gpus=1),
    ]
    assert placer(snapshot).place(gang_of(*reversed(mixed))) is not None


def test_segments_of_pods_with_rules_stay_within_a_domain() -> None:
    snapshot = snapshot_of(*(labelled(f"n{i}", {RACK: f"r{i // 2}"}) for i in range(4)))
    apart = Peers(apart=(Term(app("web"), HOST),))
    members = [pod(f"web-{index}", apart) for index in range(4)]
    placed = placer(snapshot).place(gang_of(*members, segments=Segments(2, RACK)))
    racks = [snapshot.node(snapshot.row(name)).labels[RACK] for name in seats(snapshot, placed)]
    assert racks[0] == racks[1] != racks[2] == racks[3]


def test_a_copy_counts_by_itself() -> None:
    snapshot = zones(a=1, b=1)
    apart = Peers(apart=(Term(app("web"), ZONE),))
    stand(snapshot, pod("web-0", apart), "a0")
    other = snapshot.copy()
    other.release("ns/web-0")
    assert set(refused(snapshot, pod("web-1", apart))) == {"a0"}
    assert not refused(other, pod("web-1", apart))


def planner_of(snapshot: Snapshot, policy: Policy | None = None) -> Planner:
    cluster = Cluster()
    cluster.snapshot = snapshot
    return Planner(cluster, tight, policy)


def test_who_made_room_and_would_be_in_the_way_by_a_rule_does_not_come_back() -> None:
    planner = planner_of(zones(a=1))
    weak = [
        replace(single(pod("other-0", gpus=1)), name="other"),
        replace(single(pod("web-0", gpus=1)), name="web"),
    ]
    planner.decide(weak, 0)
    apart = Peers(apart=(Term(app("web"), HOST),))
    strong = replace(gang_of(pod("db-0", apart), pod("db-1", apart)), priority=5)
    plan = planner.decide([strong], 10)
    assert [unit.gang for unit in plan.placements[0].evicted] == ["web"]


def test_a_gang_that_found_nobody_to_be_near_is_tried_again_when_somebody_came() -> None:
    planner = planner_of(zones(a=1))
    near = Peers(near=(Term(app("db"), ZONE),))
    early = replace(single(pod("web-0", near), priority=2), name="early")
    db = replace(single(pod("db-0"), priority=1), name="db")
    late = replace(single(pod("web-1", near)), name="late")
    plan = planner.decide([early, db, late], 0)
    assert [placement.gang.name for placement in plan.placements] == ["db", "late"]


def test_nobody_passes_who_would_keep_the_one_away_for_whom_room_is_kept() -> None:
    planner = planner_of(zones(a=1), Policy(evicts=False, reserve_after=0))
    runs = replace(single(pod("runs-0", gpus=8)), name="runs", duration=100.0)
    planner.decide([runs], 0)
    quiet = Peers(apart=(Term(app("noise"), ZONE),))
    waits = replace(single(pod("quiet-0", quiet, gpus=8), priority=9), name="waits")
    others = [replace(single(pod(f"{name}-0")), name=name) for name in ("noise", "calm")]
    plan = planner.decide([waits, *others], 10)
    assert plan.reservation is not None
    assert [placement.gang.name for placement in plan.placements] == ["calm"]


@pytest.mark.parametrize(
    ("peers", "level"),
    [
        (None, ""),
        (Peers(apart=(Term(app("web"), HOST),)), HOST),
        (Peers(apart=(Term(app("web"), HOST), Term(app("db"), ZONE))), HOST),
        (Peers(apart=(Term(app("db"), ZONE),)), ""),
        (Peers(apart=(Term(app("web"), HOST), Term(app("web"), ZONE))), None),
        (Peers(near=(Term(app("web"), ZONE),)), None),
        (Peers(spreads=(Spread(app("web"), ZONE),)), None),
        (Peers(liked=((1, Term(app("web"), ZONE)),)), None),
    ],
)
def test_pods_that_only_keep_away_from_each_other_are_known(
    peers: Peers | None, level: str | None
) -> None:
    assert kept_apart([pod(f"web-{index}", peers) for index in range(3)]) == level


def test_pods_of_which_only_some_are_kept_apart_are_not_alike() -> None:
    peers = Peers(apart=(Term(app("web"), HOST),))
    assert kept_apart([pod("web-0", peers), pod("x-0", peers, {"app": "x"})]) is None


def test_each_domain_has_room_for_one_on_its_best_row() -> None:
    snapshot = zones(a=2, b=2, none=1)
    room = np.array([0, 5, 5, 5, 7])
    keys = np.array([9, 1, 2, 3, 4])
    one = one_per_domain(snapshot, ZONE, np.arange(5), room, keys)
    assert one.tolist() == [0, 1, 0, 1, 7]


# Random clusters.


@dataclass(frozen=True)
class Standing:
    member: Member
    node: str


def domain(where: Node, level: str) -> str | None:
    return "" if level == EVERYWHERE else where.labels.get(level)


def belongs(kind: Kind, member: Member) -> bool:
    namespace = member.pod.split("/")[0]
    return kind.includes(namespace, member.labels, leaving=member.leaving)


def slow_refusal(
    nodes: Mapping[str, Node], stands: list[Standing], member: Member, where: Node
) -> Reason:
    """The rules, node by node and pod by pod."""
    peers = member.shape.peers or Peers()

    def beside(level: str) -> list[Member]:
        here = domain(where, level)
        return [
            one.member
            for one in stands
            if here is not None and domain(nodes[one.node], level) == here
        ]

    hard = [spread for spread in peers.spreads if spread.required]
    for spread in hard:
        if spread.level not in where.labels:
            return Reason.SPREAD
        sizes: dict[str, int] = {}
        for each in nodes.values():
            if any(other.level not in each.labels for other in hard):
                continue
            if spread.by_affinity and any(
                each.labels.get(key) != value for key, value in member.shape.selector
            ):
                continue
            if spread.by_taints and each.taints and not member.shape.tolerations:
                continue
            count = sum(belongs(spread.kind, one.member) for one in stands if one.node == each.name)
            value = each.labels[spread.level]
            sizes[value] = sizes.get(value, 0) + count
        least = min(sizes.values()) if len(sizes) >= max(1, spread.least_domains) else 0
        there = sizes.get(where.labels[spread.level], 0)
        if there + spread.counts_itself - least > spread.most:
            return Reason.SPREAD
    if peers.near:
        if any(domain(where, term.level) is None for term in peers.near):
            return Reason.POD_AFFINITY

        def meets_all(other: Member) -> bool:
            return all(belongs(term.kind, other) for term in peers.near)

        if not all(any(map(meets_all, beside(term.level))) for term in peers.near):
            anywhere = any(
                meets_all(one.member) and domain(nodes[one.node], term.level) is not None
                for one in stands
                for term in peers.near
            )
            if anywhere or not peers.first_of_kind:
                return Reason.POD_AFFINITY
    for term in peers.apart:
        if any(belongs(term.kind, other) for other in beside(term.level)):
            return Reason.VOLUME_IN_USE if term.level == EVERYWHERE else Reason.POD_ANTI_AFFINITY
    found = Reason.FITS
    for one in stands:
        for term in one.member.shape.peers.apart if one.member.shape.peers else ():
            here = domain(where, term.level)
            there = domain(nodes[one.node], term.level)
            if belongs(term.kind, member) and here is not None and here == there:
                found = Reason.REPELLED if term.level != EVERYWHERE else Reason.VOLUME_IN_USE
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
    Kind,
    st.sampled_from([None, frozenset({"p"}), frozenset({"p", "q"}), frozenset[str]()]),
    st.none() | st.lists(requirements, max_size=2).map(tuple),
    st.booleans(),
)
levels = st.sampled_from([HOST, ZONE])
terms = st.builds(Term, kinds, levels)
spreads = st.builds(
    Spread,
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
    Peers,
    st.lists(terms, max_size=2).map(tuple),
    st.lists(terms, max_size=2).map(tuple),
    st.just(()),
    st.lists(spreads, max_size=2).map(tuple),
    st.booleans(),
)
shapes = st.builds(
    lambda peers, selector, tolerant: Shape(
        (("pods", 1),),
        selector=selector,
        tolerations=(Toleration(operator="Exists"),) if tolerant else (),
        peers=peers,
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


@settings(max_examples=150)
@given(st.data(), clusters)
def test_the_vectors_say_what_the_rules_say(
    data: st.DataObject, facts: list[tuple[str | None, bool, bool]]
) -> None:
    nodes = cluster_of(facts)
    snapshot = snapshot_of(*nodes.values())
    stands: list[Standing] = []
    for number in range(data.draw(st.integers(1, 8))):
        namespace, asked, labels, leaving = data.draw(pods)
        member = Member(f"{namespace}/pod-{number}", asked, labels, leaving=leaving)
        expected = {
            name: reason
            for name, each in nodes.items()
            if (reason := slow_refusal(nodes, stands, member, each))
        }
        assert refused(snapshot, member) == expected
        where = data.draw(st.sampled_from(sorted(nodes)))
        action = data.draw(st.sampled_from(["stay", "stay", "stay", "try", "go"]))
        if action == "try":
            mark = snapshot.mark()
            stand(snapshot, member, where)
            snapshot.release(member.pod)
            stand(snapshot, replace(member, leaving=not leaving), sorted(nodes)[0])
            snapshot.undo(mark)
        elif action == "go" and stands:
            snapshot.release(stands.pop(0).member.pod)
        else:
            stand(snapshot, member, where)
            stands.append(Standing(member, where))


@settings(max_examples=100)
@given(st.lists(pods, min_size=1, max_size=4), clusters)
def test_no_rule_is_broken_by_a_gang_that_was_placed(
    drawn: list[tuple[str, Shape, dict[str, str], bool]],
    facts: list[tuple[str | None, bool, bool]],
) -> None:
    nodes = cluster_of(facts)
    snapshot = snapshot_of(*nodes.values())
    members = [
        Member(f"{namespace}/pod-{number}", asked, labels)
        for number, (namespace, asked, labels, _) in enumerate(drawn)
    ]
    placed = Placer(snapshot, Rooms(snapshot, tight)).place(gang_of(*members))
    if placed is None:
        assert not snapshot.bookings
        return
    stands: list[Standing] = []
    for booking in snapshot.bookings.values():  # in the order in which they got their places
        member, where = booking.member, snapshot.names[booking.row]
        if member.shape.peers is not None:
            assert not slow_refusal(nodes, stands, member, nodes[where])
        stands.append(Standing(member, where))
