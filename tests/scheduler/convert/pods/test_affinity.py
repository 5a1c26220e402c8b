"""Conversion of pod affinity, spread constraints and host ports."""

import pytest

from kilonova.api.json import JsonObject
from kilonova.scheduler.convert.pods.affinity import convert_pod_affinity, uses_namespace_selector
from kilonova.scheduler.convert.pods.members import convert_pod, convert_pod_shape
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.model.gangs import Member, single_pod_gang
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_affinity import (
    AffinityTerm,
    PodAffinityRules,
    PodSelector,
    TopologySpread,
)
from kilonova.scheduler.core.model.requirements import Requirement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.placer import Placer
from tests.scheduler.convert.wire_pods import wire_pod
from tests.scheduler.core.support.clusters import tight

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OWN_NAMESPACE = frozenset({"ns"})
WEB = Requirement("app", "In", ("web",))
NAMESPACES = {"ns": {}, "east": {"team": "a"}, "west": {"team": "b"}}


def convert_affinity(**term: object) -> PodAffinityRules:
    wire: JsonObject = {"topologyKey": "zone", **term}
    pod = wire_pod({"affinity": {"podAffinity": {REQUIRED: [wire]}}}, {"app": "web", "hash": "1"})
    found = convert_pod_affinity(pod, NAMESPACES)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        ({"labelSelector": {"matchLabels": {"app": "web"}}}, PodSelector(OWN_NAMESPACE, (WEB,))),
        ({}, PodSelector(OWN_NAMESPACE, None)),
        ({"labelSelector": {}}, PodSelector(OWN_NAMESPACE, ())),
        ({"labelSelector": {}, "namespaces": ["east"]}, PodSelector(frozenset({"east"}), ())),
        ({"labelSelector": {}, "namespaceSelector": {}}, PodSelector(None, ())),
        (
            {
                "labelSelector": {},
                "namespaces": ["ns"],
                "namespaceSelector": {"matchLabels": {"team": "b"}},
            },
            PodSelector(frozenset({"ns", "west"}), ()),
        ),
        (
            {
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                "matchLabelKeys": ["hash", "unknown"],
                "mismatchLabelKeys": ["app"],
            },
            PodSelector(
                OWN_NAMESPACE,
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
            PodSelector(OWN_NAMESPACE, (Requirement("hash", "In", ("1",)),)),
        ),
        ({"matchLabelKeys": ["hash"]}, PodSelector(OWN_NAMESPACE, None)),
    ],
)
def test_affinity_term_selects_pods(term: JsonObject, kind: PodSelector) -> None:
    assert convert_affinity(**term).affinity == (AffinityTerm(kind, "zone"),)


def test_first_pod_satisfies_affinity_to_its_own_labels() -> None:
    assert convert_affinity(labelSelector={"matchLabels": {"app": "web"}}).matches_own_affinity
    assert not convert_affinity(labelSelector={"matchLabels": {"app": "db"}}).matches_own_affinity
    assert not convert_affinity(labelSelector={}, namespaces=["east"]).matches_own_affinity


def test_preferred_affinity_and_anti_affinity_differ_in_sign() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    preferred = [{"weight": 7, "podAffinityTerm": term}]
    pod = wire_pod(
        {
            "affinity": {
                "podAffinity": {PREFERRED: preferred},
                "podAntiAffinity": {REQUIRED: [term], PREFERRED: preferred},
                "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}},
            }
        }
    )
    web = AffinityTerm(PodSelector(OWN_NAMESPACE, (WEB,)), "zone")
    expected = PodAffinityRules(
        anti_affinity=(web,), preferred=((7, web), (-7, web)), has_node_affinity=True
    )
    assert convert_pod_affinity(pod, {}) == expected
    assert convert_pod_shape(pod).pod_rules == expected


@pytest.mark.parametrize(
    ("constraint", "spread"),
    [
        (
            {"labelSelector": {"matchLabels": {"app": "web"}}},
            TopologySpread(
                PodSelector(OWN_NAMESPACE, (WEB,), excludes_terminating=True), "zone", 2
            ),
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
            TopologySpread(
                PodSelector(
                    OWN_NAMESPACE,
                    (Requirement("app", "In", ("db",)), Requirement("hash", "In", ("1",))),
                    excludes_terminating=True,
                ),
                "zone",
                2,
                required=False,
                min_domains=3,
                honors_node_affinity=False,
                honors_taints=True,
                matches_itself=False,
            ),
        ),
        (
            {},
            TopologySpread(
                PodSelector(OWN_NAMESPACE, None, excludes_terminating=True),
                "zone",
                2,
                matches_itself=False,
            ),
        ),
        (
            {"labelSelector": {}},
            TopologySpread(PodSelector(OWN_NAMESPACE, None, excludes_terminating=True), "zone", 2),
        ),
    ],
)
def test_spread_constraint_is_converted(constraint: JsonObject, spread: TopologySpread) -> None:
    wire: JsonObject = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        **constraint,
    }
    pod = wire_pod({"topologySpreadConstraints": [wire]}, {"app": "web", "hash": "1"})
    assert convert_pod_affinity(pod, {}) == PodAffinityRules(topology_spread=(spread,))


def test_namespace_labels_matter_only_to_namespace_selectors() -> None:
    by_name = {"topologyKey": "zone", "namespaces": ["east"]}
    by_label = {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    assert not uses_namespace_selector(wire_pod({}))
    assert not uses_namespace_selector(
        wire_pod({"affinity": {"podAffinity": {REQUIRED: [by_name]}}})
    )
    assert uses_namespace_selector(
        wire_pod({"affinity": {"podAntiAffinity": {REQUIRED: [by_label]}}})
    )
    assert convert_pod_affinity(wire_pod({}), NAMESPACES) is None


def port_user(name: str, *ports: tuple[int, str, str]) -> Member:
    wire = [{"hostPort": port, "protocol": kind, "hostIP": ip} for port, kind, ip in ports]
    return convert_pod(wire_pod({"containers": [{"ports": wire}]}, name=name))


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
def test_host_ports_conflict(
    first: tuple[int, str, str], second: tuple[int, str, str], meet: bool
) -> None:
    snapshot = Snapshot()
    snapshot.put_node(Node("n0", {"pods": 9}))
    place = Placer(snapshot, FeasibilityCache(snapshot, tight)).place
    assert place(single_pod_gang(port_user("a", first))) is not None
    assert (place(single_pod_gang(port_user("b", second))) is None) == meet
    snapshot.put_node(Node("n1", {"pods": 9}))
    assert place(single_pod_gang(port_user("c", second))) is not None


def test_host_port_on_one_address_and_on_all() -> None:
    snapshot = Snapshot()
    snapshot.put_node(Node("n0", {"pods": 9}))
    place = Placer(snapshot, FeasibilityCache(snapshot, tight)).place
    both = port_user("a", (80, "TCP", "127.0.0.1"), (80, "TCP", ""))
    assert place(single_pod_gang(both)) is not None


def test_only_sidecar_init_container_ports_count() -> None:
    ports = [{"hostPort": 80}]
    done = wire_pod({"initContainers": [{"ports": ports}]})
    goes_on = wire_pod({"initContainers": [{"ports": ports, "restartPolicy": "Always"}]})
    assert convert_pod_shape(done) == convert_pod_shape(wire_pod({}))
    assert convert_pod_shape(goes_on) != convert_pod_shape(wire_pod({}))
