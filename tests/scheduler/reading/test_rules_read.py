"""Rules about other pods and ports of nodes, as the API writes them."""

import pytest

from kilonova.api.json import JsonObject
from kilonova.scheduler.core.gangs import Member, single
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.peers import Kind, Peers, Spread, Term
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.core.requirements import Requirement
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Snapshot
from kilonova.scheduler.reading.peers import needs_namespaces, peers_of
from kilonova.scheduler.reading.pods import member_of, shape_of
from tests.scheduler.core.clusters import tight
from tests.scheduler.reading.wire_pods import wire_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OWN = frozenset({"ns"})
WEB = Requirement("app", "In", ("web",))
NAMESPACES = {"ns": {}, "east": {"team": "a"}, "west": {"team": "b"}}


def near(**term: object) -> Peers:
    wire: JsonObject = {"topologyKey": "zone", **term}
    pod = wire_pod({"affinity": {"podAffinity": {REQUIRED: [wire]}}}, {"app": "web", "hash": "1"})
    found = peers_of(pod, NAMESPACES)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        ({"labelSelector": {"matchLabels": {"app": "web"}}}, Kind(OWN, (WEB,))),
        ({}, Kind(OWN, None)),
        ({"labelSelector": {}}, Kind(OWN, ())),
        ({"labelSelector": {}, "namespaces": ["east"]}, Kind(frozenset({"east"}), ())),
        ({"labelSelector": {}, "namespaceSelector": {}}, Kind(None, ())),
        (
            {
                "labelSelector": {},
                "namespaces": ["ns"],
                "namespaceSelector": {"matchLabels": {"team": "b"}},
            },
            Kind(frozenset({"ns", "west"}), ()),
        ),
        (
            {
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                "matchLabelKeys": ["hash", "unknown"],
                "mismatchLabelKeys": ["app"],
            },
            Kind(
                OWN,
                (
                    Requirement("app", "Exists"),
                    Requirement("hash", "In", ("1",)),
                    Requirement("app", "NotIn", ("web",)),
                ),
            ),
        ),
        (
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "hash", "operator": "In", "values": ["1"]}]
                },
                "matchLabelKeys": ["hash"],
            },
            Kind(OWN, (Requirement("hash", "In", ("1",)),)),
        ),
        ({"matchLabelKeys": ["hash"]}, Kind(OWN, None)),
    ],
)
def test_a_term_names_pods(term: JsonObject, kind: Kind) -> None:
    assert near(**term).near == (Term(kind, "zone"),)


def test_a_pod_may_be_the_first_of_its_kind() -> None:
    assert near(labelSelector={"matchLabels": {"app": "web"}}).first_of_kind
    assert not near(labelSelector={"matchLabels": {"app": "db"}}).first_of_kind
    assert not near(labelSelector={}, namespaces=["east"]).first_of_kind


def test_wishes_and_what_a_pod_keeps_away_from_are_told_apart() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    wish = [{"weight": 7, "podAffinityTerm": term}]
    pod = wire_pod(
        {
            "affinity": {
                "podAffinity": {PREFERRED: wish},
                "podAntiAffinity": {REQUIRED: [term], PREFERRED: wish},
                "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}},
            }
        }
    )
    web = Term(Kind(OWN, (WEB,)), "zone")
    expected = Peers(apart=(web,), liked=((7, web), (-7, web)), own_affinity=True)
    assert peers_of(pod, {}) == expected
    assert shape_of(pod).peers == expected


@pytest.mark.parametrize(
    ("constraint", "spread"),
    [
        (
            {"labelSelector": {"matchLabels": {"app": "web"}}},
            Spread(Kind(OWN, (WEB,), staying=True), "zone", 2),
        ),
        (
            {
                "labelSelector": {"matchLabels": {"app": "db"}},
                "whenUnsatisfiable": "ScheduleAnyway",
                "minDomains": 3,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
                "matchLabelKeys": ["hash"],
            },
            Spread(
                Kind(
                    OWN,
                    (Requirement("app", "In", ("db",)), Requirement("hash", "In", ("1",))),
                    staying=True,
                ),
                "zone",
                2,
                required=False,
                least_domains=3,
                by_affinity=False,
                by_taints=True,
                counts_itself=False,
            ),
        ),
        ({}, Spread(Kind(OWN, None, staying=True), "zone", 2, counts_itself=False)),
        ({"labelSelector": {}}, Spread(Kind(OWN, None, staying=True), "zone", 2)),
    ],
)
def test_a_spread_constraint(constraint: JsonObject, spread: Spread) -> None:
    wire: JsonObject = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        **constraint,
    }
    pod = wire_pod({"topologySpreadConstraints": [wire]}, {"app": "web", "hash": "1"})
    assert peers_of(pod, {}) == Peers(spreads=(spread,))


def test_labels_of_namespaces_matter_only_to_pods_that_select_by_them() -> None:
    by_name = {"topologyKey": "zone", "namespaces": ["east"]}
    by_label = {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    assert not needs_namespaces(wire_pod({}))
    assert not needs_namespaces(wire_pod({"affinity": {"podAffinity": {REQUIRED: [by_name]}}}))
    assert needs_namespaces(wire_pod({"affinity": {"podAntiAffinity": {REQUIRED: [by_label]}}}))
    assert peers_of(wire_pod({}), NAMESPACES) is None


def port_user(name: str, *ports: tuple[int, str, str]) -> Member:
    wire = [{"hostPort": port, "protocol": kind, "hostIP": ip} for port, kind, ip in ports]
    return member_of(wire_pod({"containers": [{"ports": wire}]}, name=name))


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        ((80, "TCP", ""), (80, "TCP", ""), True),
        ((80, "TCP", ""), (80, "TCP", "0.0.0.0"), True),
        ((80, "TCP", ""), (81, "TCP", ""), False),
        ((80, "TCP", ""), (80, "UDP", ""), False),
        ((80, "TCP", "127.0.0.1"), (80, "TCP", ""), True),
        ((80, "TCP", ""), (80, "TCP", "127.0.0.1"), True),
        ((80, "TCP", "127.0.0.1"), (80, "TCP", "127.0.0.1"), True),
        ((80, "TCP", "127.0.0.1"), (80, "TCP", "127.0.0.2"), False),
    ],
)
def test_pods_meet_at_a_port_of_a_node(
    first: tuple[int, str, str], second: tuple[int, str, str], meet: bool
) -> None:
    snapshot = Snapshot()
    snapshot.put_node(Node("n0", {"pods": 9}))
    place = Placer(snapshot, Rooms(snapshot, tight)).place
    assert place(single(port_user("a", first))) is not None
    assert (place(single(port_user("b", second))) is None) == meet
    snapshot.put_node(Node("n1", {"pods": 9}))
    assert place(single(port_user("c", second))) is not None


def test_a_pod_may_use_a_port_on_one_address_and_on_all() -> None:
    snapshot = Snapshot()
    snapshot.put_node(Node("n0", {"pods": 9}))
    place = Placer(snapshot, Rooms(snapshot, tight)).place
    both = port_user("a", (80, "TCP", "127.0.0.1"), (80, "TCP", ""))
    assert place(single(both)) is not None


def test_ports_of_init_containers_count_only_where_they_go_on() -> None:
    ports = [{"hostPort": 80}]
    done = wire_pod({"initContainers": [{"ports": ports}]})
    goes_on = wire_pod({"initContainers": [{"ports": ports, "restartPolicy": "Always"}]})
    assert shape_of(done) == shape_of(wire_pod({}))
    assert shape_of(goes_on) != shape_of(wire_pod({}))
