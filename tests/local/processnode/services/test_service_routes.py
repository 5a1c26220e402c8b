"""Routes and listeners of Services and EndpointSlices, as tables."""

from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.meta import Metadata
from kilonova.api.service_addresses import map_to_loopback
from kilonova.local.processnode.network.routes import Backend, ServiceRoute
from kilonova.local.processnode.services.assembly import parse_api_backend
from kilonova.local.processnode.services.proxy.service_routes import (
    build_nameserver_routes,
    build_routes,
    plan_listeners,
)
from tests.local.processnode.services.service_objects import endpoint, endpoint_slice, service

IP = "10.96.1.2"
ONE, TWO = Backend("127.64.0.1", 8080), Backend("127.64.0.2", 8080)
PORT = {"port": 80}
API = Backend("127.0.0.1", 6443)


def test_ready_pods_of_all_slices_are_behind_a_service() -> None:
    slices = [
        endpoint_slice("web", ONE.ip),
        endpoint_slice("web", TWO.ip, ONE.ip, name="web-2"),
    ]
    routes = build_routes(service("web", PORT, clusterIP=IP), slices, API)
    assert routes == (ServiceRoute(IP, 80, "TCP", (ONE, TWO)),)


@pytest.mark.parametrize(
    ("fields", "meaning"),
    [
        ({"endpoints": [endpoint(ONE.ip, ready=False)]}, "not ready"),
        ({"endpoints": [endpoint("10.244.0.7")]}, "of a simulated node"),
        ({"endpoints": [endpoint("127.0.0.1")]}, "not a pod's address"),
        ({"endpoints": []}, "none"),
        ({"endpoints": None}, "none"),
        ({"addressType": "IPv6", "endpoints": [endpoint("fd00::1")]}, "another family"),
        ({"endpoints": [endpoint(ONE.ip)], "ports": []}, "no port"),
        ({"endpoints": [endpoint(ONE.ip)], "ports": [{"name": "x", "port": 1}]}, "another port"),
        (
            {"endpoints": [endpoint(ONE.ip)], "ports": [{"port": 1, "protocol": "UDP"}]},
            "another protocol",
        ),
    ],
)
def test_unreachable_endpoints_are_left_out(fields: dict[str, Any], meaning: str) -> None:
    routes = build_routes(
        service("web", PORT, clusterIP=IP), [endpoint_slice("web", **fields)], API
    )
    assert routes == (ServiceRoute(IP, 80, "TCP"),), meaning


def test_unknown_readiness_counts_as_ready() -> None:
    slices = [endpoint_slice("web", endpoints=[endpoint(ONE.ip, ready=None)])]
    assert build_routes(service("web", PORT, clusterIP=IP), slices, API)[0].backends == (ONE,)


def test_ports_are_matched_by_name_and_protocol() -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]
    behind = [
        {"name": "a", "port": 8080},
        {"name": "b", "port": 5353, "protocol": "UDP"},
        {"name": "b", "port": 9, "protocol": "TCP"},
    ]
    routes = build_routes(
        service("web", *ports, clusterIP=IP), [endpoint_slice("web", ONE.ip, ports=behind)], API
    )
    assert routes == (
        ServiceRoute(IP, 80, "TCP", (ONE,)),
        ServiceRoute(IP, 53, "UDP", (Backend(ONE.ip, 5353),)),
    )


def test_session_affinity_is_kept() -> None:
    sticky = service("web", PORT, clusterIP=IP, sessionAffinity="ClientIP")
    assert build_routes(sticky, [], API)[0].has_session_affinity


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterIP": "None"},
        {"clusterIP": ""},
        {"type": "ExternalName", "externalName": "example.com"},
        {"clusterIP": IP, "ports": [{"port": 1, "protocol": "SCTP"}]},
    ],
)
def test_services_without_routes(spec: dict[str, Any]) -> None:
    assert build_routes(service("web", **{"ports": [PORT], **spec}), [], API) == ()
    assert build_routes(None, [], API) == ()


def test_kubernetes_service_leads_to_the_api() -> None:
    kubernetes = service("kubernetes", {"port": 443, "name": "https"}, clusterIP="10.96.0.1")
    routes = build_routes(kubernetes, [], API)
    assert routes == (ServiceRoute("10.96.0.1", 443, "TCP", (API,)),)
    assert plan_listeners(kubernetes, routes) == ()
    assert build_routes(kubernetes, [], None) == (ServiceRoute("10.96.0.1", 443, "TCP"),)


@pytest.mark.parametrize(
    ("url", "backend"),
    [
        ("https://127.0.0.1:6443", API),
        ("https://0.0.0.0:6443", API),
        ("https://[::]:6443", API),
        ("https://192.168.1.5:6443", Backend("192.168.1.5", 6443)),
        ("", None),
    ],
)
def test_where_pods_reach_the_api(url: str, backend: Backend | None) -> None:
    assert parse_api_backend(url) == backend


def test_nameservers_lead_to_the_clusters_dns() -> None:
    dns = Backend("127.0.0.1", 2053)
    routes = build_nameserver_routes(["10.0.0.2", "fe80::1%eth0"], dns)
    assert [(route.address, route.protocol) for route in routes] == [
        ("10.0.0.2", "TCP"),
        ("10.0.0.2", "UDP"),
        ("fe80::1", "TCP"),
        ("fe80::1", "UDP"),
    ]
    assert {(route.port, route.backends, route.is_virtual) for route in routes} == {
        (53, (dns,), False)
    }


BACKED = (ServiceRoute(IP, 80, "TCP", (ONE,)),)
EMPTY = (ServiceRoute(IP, 80, "TCP"),)


@pytest.mark.parametrize(
    ("spec", "routes", "places"),
    [
        ({}, BACKED, ["127.96.1.2:80"]),
        ({}, EMPTY, []),
        (
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]},
            BACKED,
            ["127.96.1.2:80", "127.0.0.1:30080"],
        ),
        ({"type": "LoadBalancer"}, EMPTY, ["127.96.1.2:80"]),
        ({"type": "LoadBalancer", "loadBalancerClass": "example.com/other"}, EMPTY, []),
        ({"ports": [{"port": 80, "protocol": "UDP"}]}, (ServiceRoute(IP, 80, "UDP", (ONE,)),), []),
        ({"clusterIP": "172.16.0.1"}, BACKED, []),
    ],
)
def test_which_listeners_a_service_has(
    spec: dict[str, Any], routes: tuple[ServiceRoute, ...], places: list[str]
) -> None:
    asked = service("web", **{"ports": [PORT], "clusterIP": IP, **spec})
    assert [str(listener) for listener in plan_listeners(asked, routes)] == places


@pytest.mark.parametrize(
    ("annotations", "places"),
    [
        ({"kilonova.dev/host-listener": "pod"}, ["127.0.0.1:30080"]),
        ({"kilonova.dev/host-listener": "node"}, ["127.96.1.2:80", "127.0.0.1:30080"]),
        ({}, ["127.96.1.2:80", "127.0.0.1:30080"]),
    ],
)
def test_pods_that_listen_at_the_mirror_are_left_alone(
    annotations: dict[str, str], places: list[str]
) -> None:
    plain = service("web", {"port": 80, "nodePort": 30080}, clusterIP=IP, type="NodePort")
    asked = replace(plain, metadata=Metadata("web", "u", "1", annotations=annotations))
    assert [str(listener) for listener in plan_listeners(asked, BACKED)] == places


def test_addresses_are_mirrored_on_loopback() -> None:
    assert map_to_loopback("10.96.0.0") == "127.96.0.0"
    assert map_to_loopback("10.96.255.254") == "127.96.255.254"
    assert map_to_loopback("10.97.0.1") is None
    assert map_to_loopback("fd00::1") is None
    assert map_to_loopback("None") is None
