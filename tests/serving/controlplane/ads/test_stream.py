"""What a gateway is sent, in which order: without gRPC, as a conversation of values."""

from dataclasses import dataclass, field

import pytest

from kilonova.serving.controlplane.ads.snapshot import (
    EncodedResource,
    ResourceType,
    Snapshot,
    compute_version,
)
from kilonova.serving.controlplane.ads.stream import (
    DiscoveryRequest,
    DiscoveryResponse,
    GatewayStream,
)

CLUSTER, ENDPOINTS, SECRET, LISTENER, ROUTES = ResourceType


def build_snapshot(
    *,
    clusters: str = "a:1",
    endpoints: str = "a:1",
    secrets: str = "",
    listeners: str = "http:1",
    routes: str = "r:1",
    held: str = "",
) -> Snapshot:
    """Resources as `name:version`, separated by spaces."""
    texts = dict(zip(ResourceType, (clusters, endpoints, secrets, listeners, routes), strict=True))
    resources = {type_: parse_resources(text) for type_, text in texts.items()}
    names = frozenset(resources[CLUSTER]) & frozenset(resources[ENDPOINTS])
    return Snapshot(resources, endpoint_names=names, held_clusters=frozenset(held.split()))


def parse_resources(text: str) -> dict[str, EncodedResource]:
    pairs = (each.split(":") for each in text.split())
    return {name: EncodedResource(version, f"{name}:{version}".encode()) for name, version in pairs}


@dataclass
class Gateway:
    """A gateway that does what Envoy does: it subscribes to what its resources name."""

    stream: GatewayStream = field(default_factory=GatewayStream)
    rejects: tuple[ResourceType, ...] = ()
    versions: dict[ResourceType, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def subscribe(self, type_: ResourceType, *names: str, nonce: str = "") -> None:
        version = self.versions.get(type_, "")
        self.stream.receive(DiscoveryRequest(type_, version, nonce, names))

    def connect(self, *, endpoints: str = "a", routes: str = "r") -> None:
        """Subscribe to everything."""
        self.subscribe(CLUSTER)
        self.subscribe(ENDPOINTS, *endpoints.split())
        self.subscribe(LISTENER)
        self.subscribe(ROUTES, *routes.split())

    def answer(self, response: DiscoveryResponse, *names: str) -> None:
        """ACK or NACK a response; `names` is what it subscribes to."""
        rejected = response.type in self.rejects
        if not rejected:
            self.versions[response.type] = response.version
        self.stream.receive(
            DiscoveryRequest(
                response.type,
                self.versions.get(response.type, ""),
                response.nonce,
                names,
                "it is invalid" if rejected else "",
            )
        )

    def settle(self, snapshot: Snapshot, *, endpoints: str = "a", routes: str = "r") -> list[str]:
        """Take and answer all responses; returns them as `Type name:version …`."""
        names = {ENDPOINTS: endpoints.split(), ROUTES: routes.split(), SECRET: ["tls"]}
        log: list[str] = []
        while (response := self.stream.plan(snapshot)) is not None:
            log.append(describe(response))
            self.answer(response, *names.get(response.type, []))
        return log


def describe(response: DiscoveryResponse) -> str:
    bodies = " ".join(sorted(each.decode() for each in response.bodies))
    return f"{response.type.short_name} {bodies}".strip()


def connected(snapshot: Snapshot, **subscriptions: str) -> Gateway:
    """A gateway that has a snapshot."""
    gateway = Gateway()
    gateway.connect(**subscriptions)
    gateway.settle(snapshot, **subscriptions)
    assert gateway.stream.plan(snapshot) is None
    return gateway


def test_gateway_gets_everything_once_in_order() -> None:
    gateway = Gateway()
    gateway.connect()
    assert gateway.settle(build_snapshot()) == [
        "Cluster a:1",
        "ClusterLoadAssignment a:1",
        "Listener http:1",
        "RouteConfiguration r:1",
    ]
    assert gateway.settle(build_snapshot()) == []


@pytest.mark.parametrize(
    ("change", "sent"),
    [
        ({"endpoints": "a:2"}, ["ClusterLoadAssignment a:2"]),
        ({"routes": "r:2"}, ["RouteConfiguration r:2"]),
        ({"listeners": "http:2"}, ["Listener http:2"]),
        (
            {"clusters": "a:2", "routes": "r:2"},
            ["Cluster a:2", "ClusterLoadAssignment a:1", "RouteConfiguration r:2"],
        ),
    ],
)
def test_only_what_changed_is_sent(change: dict[str, str], sent: list[str]) -> None:
    assert connected(build_snapshot()).settle(build_snapshot(**change)) == sent


def test_endpoints_of_a_cluster_that_changes_do_not_wait_for_its_acknowledgement() -> None:
    before = build_snapshot(clusters="a:1 b:1", endpoints="a:1 b:1")
    gateway = connected(before, endpoints="a b")
    changed = build_snapshot(clusters="a:2 b:1", endpoints="a:1 b:1", routes="r:2")
    cluster = gateway.stream.plan(changed)
    assert cluster is not None
    assert cluster.type is CLUSTER
    # Envoy answers once the cluster is ready for use, for which it waits for the endpoints.
    endpoints = gateway.stream.plan(changed)
    assert endpoints is not None
    assert endpoints.type is ENDPOINTS
    assert len(endpoints.bodies) == 1
    gateway.answer(endpoints, "a", "b")
    later = build_snapshot(clusters="a:2 b:1", endpoints="a:2 b:2", routes="r:2")
    following = gateway.stream.plan(later)
    assert following is not None
    assert following.type is ENDPOINTS
    gateway.answer(following, "a", "b")
    assert gateway.stream.plan(later) is None, "routes wait"
    gateway.answer(cluster)
    assert gateway.settle(later, endpoints="a b") == ["RouteConfiguration r:2"]


def test_of_endpoints_only_those_that_changed_are_sent() -> None:
    before = build_snapshot(clusters="a:1 b:1", endpoints="a:1 b:1")
    gateway = connected(before, endpoints="a b")
    after = build_snapshot(clusters="a:1 b:1", endpoints="a:1 b:2")
    assert gateway.settle(after, endpoints="a b") == ["ClusterLoadAssignment b:2"]


def test_changes_wait_until_a_gateway_has_answered() -> None:
    gateway = connected(build_snapshot())
    first = gateway.stream.plan(build_snapshot(endpoints="a:2"))
    assert first is not None
    assert gateway.stream.plan(build_snapshot(endpoints="a:3")) is None
    last = build_snapshot(endpoints="a:4")
    gateway.answer(first, "a")
    assert gateway.settle(last) == ["ClusterLoadAssignment a:4"]


def test_answer_to_a_former_response_counts_for_nothing() -> None:
    gateway = connected(build_snapshot())
    changed = build_snapshot(endpoints="a:2")
    response = gateway.stream.plan(changed)
    assert response is not None
    old = DiscoveryRequest(ENDPOINTS, "old", "0", ("a",))
    assert not gateway.stream.receive(old)
    assert not gateway.stream.has_acknowledged(changed, ENDPOINTS)
    gateway.answer(response, "a")
    assert gateway.stream.has_acknowledged(changed, ENDPOINTS)


def test_route_to_a_new_cluster_waits_for_its_endpoints() -> None:
    gateway = connected(build_snapshot())
    after = build_snapshot(clusters="a:1 b:1", endpoints="a:1 b:1", routes="r:2")
    assert gateway.settle(after) == ["Cluster a:1 b:1"]
    gateway.subscribe(ENDPOINTS, "a", "b", nonce="2")
    assert gateway.settle(after, endpoints="a b") == [
        "ClusterLoadAssignment b:1",
        "RouteConfiguration r:2",
    ]


def test_cluster_is_removed_when_no_route_needs_it() -> None:
    gateway = connected(build_snapshot(clusters="a:1 b:1", endpoints="a:1 b:1"), endpoints="a b")
    after = build_snapshot(clusters="a:1", endpoints="a:1", routes="r:2")
    assert gateway.settle(after, endpoints="a b") == ["RouteConfiguration r:2", "Cluster a:1"]


def test_cluster_stays_while_the_gateway_rejects_the_new_routes() -> None:
    gateway = connected(build_snapshot(clusters="a:1 b:1", endpoints="a:1 b:1"), endpoints="a b")
    gateway.rejects = (ROUTES,)
    after = build_snapshot(clusters="a:1", endpoints="a:1", routes="r:2")
    assert gateway.settle(after, endpoints="a b") == ["RouteConfiguration r:2"]
    gateway.rejects = ()
    fixed = build_snapshot(clusters="a:1", endpoints="a:1", routes="r:3")
    assert gateway.settle(fixed, endpoints="a b") == ["RouteConfiguration r:3", "Cluster a:1"]


def test_last_endpoint_goes_after_the_routes_hold_requests() -> None:
    gateway = connected(build_snapshot())
    idle = build_snapshot(endpoints="a:0", routes="r:hold", held="a")
    assert gateway.settle(idle) == ["RouteConfiguration r:hold", "ClusterLoadAssignment a:0"]


def test_first_endpoint_comes_before_the_routes_let_requests_through() -> None:
    gateway = connected(build_snapshot(endpoints="a:0", routes="r:hold", held="a"))
    assert gateway.settle(build_snapshot()) == [
        "ClusterLoadAssignment a:1",
        "RouteConfiguration r:1",
    ]


def test_rejected_response_is_not_sent_again_until_it_changes() -> None:
    gateway = connected(build_snapshot())
    gateway.rejects = (LISTENER,)
    assert gateway.settle(build_snapshot(listeners="http:2")) == ["Listener http:2"]
    assert gateway.settle(build_snapshot(listeners="http:2")) == []
    gateway.rejects = ()
    assert gateway.settle(build_snapshot(listeners="http:3")) == ["Listener http:3"]


def test_endpoints_follow_the_servers_while_clusters_are_rejected() -> None:
    gateway = connected(build_snapshot())
    gateway.rejects = (CLUSTER,)
    changed = build_snapshot(clusters="a:2", endpoints="a:2", listeners="http:2", routes="r:2")
    assert gateway.settle(changed) == ["Cluster a:2", "ClusterLoadAssignment a:2"]
    gateway.rejects = ()
    fixed = build_snapshot(clusters="a:3", endpoints="a:2", listeners="http:2", routes="r:2")
    assert gateway.settle(fixed) == [
        "Cluster a:3",
        "ClusterLoadAssignment a:2",
        "Listener http:2",
        "RouteConfiguration r:2",
    ]


def test_all_resources_of_a_rejected_response_are_sent_again() -> None:
    before = build_snapshot(clusters="a:1 b:1", endpoints="a:1 b:1")
    gateway = connected(before, endpoints="a b")
    gateway.rejects = (ENDPOINTS,)
    broken = build_snapshot(clusters="a:1 b:1", endpoints="a:2 b:bad")
    assert gateway.settle(broken, endpoints="a b") == ["ClusterLoadAssignment a:2 b:bad"]
    gateway.rejects = ()
    fixed = build_snapshot(clusters="a:1 b:1", endpoints="a:2 b:3")
    assert gateway.settle(fixed, endpoints="a b") == ["ClusterLoadAssignment a:2 b:3"]


def test_gateway_that_connects_again_gets_no_listener_or_cluster_that_it_has() -> None:
    known = connected(build_snapshot())
    again = Gateway(versions=known.versions)
    again.connect()
    assert again.settle(build_snapshot()) == [
        "ClusterLoadAssignment a:1",
        "RouteConfiguration r:1",
    ]
    assert again.versions == known.versions


def test_gateway_that_connects_again_gets_what_changed_in_order() -> None:
    again = Gateway(versions=connected(build_snapshot()).versions)
    again.connect()
    changed = build_snapshot(clusters="a:2", endpoints="a:2", routes="r:2")
    assert again.settle(changed) == [
        "Cluster a:2",
        "ClusterLoadAssignment a:2",
        "RouteConfiguration r:2",
    ]


def test_secret_is_sent_when_a_listener_that_names_it_asks() -> None:
    gateway = connected(build_snapshot(secrets="tls:1"))
    gateway.subscribe(SECRET, "tls")
    assert gateway.settle(build_snapshot(secrets="tls:1")) == ["Secret tls:1"]


def test_renewed_secret_is_sent_alone() -> None:
    gateway = connected(build_snapshot(secrets="tls:1"))
    gateway.subscribe(SECRET, "tls")
    gateway.settle(build_snapshot(secrets="tls:1"))
    response = gateway.stream.plan(build_snapshot(secrets="tls:2"))
    assert response is not None
    assert describe(response) == "Secret tls:2"


def test_listeners_of_a_gateway_that_drains_are_removed() -> None:
    gateway = connected(build_snapshot())
    gateway.stream.drains = True
    assert gateway.settle(build_snapshot()) == ["Listener"]
    assert gateway.settle(build_snapshot(endpoints="a:2")) == ["ClusterLoadAssignment a:2"]


def test_version_depends_on_content_alone() -> None:
    one = compute_version([("a", "1"), ("b", "2")])
    assert one == compute_version([("b", "2"), ("a", "1")])
    assert one != compute_version([("a", "1"), ("b", "3")])
