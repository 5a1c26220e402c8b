"""Cluster IPs and node ports: unique, stable, the same in every run."""

from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apiserver.kinds.core.service_allocator import ServiceAllocator, ServiceRanges


def service(name: str, **spec: Any) -> Any:
    return {"metadata": {"namespace": "n", "name": name}, "spec": {"type": "ClusterIP", **spec}}


def assigned(addresses: ServiceAllocator, given: Any) -> Any:
    addresses.allocate(given)
    assert addresses.validate(given) == []
    return given["spec"]


def test_service_keeps_its_cluster_ip() -> None:
    addresses = ServiceAllocator()
    first = assigned(addresses, service("a"))["clusterIP"]
    assert assigned(addresses, service("a"))["clusterIP"] == first
    assert assigned(addresses, service("b"))["clusterIP"] != first


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"type": "ExternalName"}])
def test_service_without_cluster_ip_gets_none(spec: Any) -> None:
    given = service("a", **spec)
    assert assigned(ServiceAllocator(), given).get("clusterIPs") is None


def test_node_ports_are_allocated_for_types_that_need_them() -> None:
    addresses = ServiceAllocator(ServiceRanges(node_ports=range(30000, 30003)))
    ports = [{"port": 80}, {"port": 81, "nodePort": 30001}]
    spec = assigned(addresses, service("a", type="NodePort", ports=ports))
    assert [port["nodePort"] for port in spec["ports"]] == [30000, 30001]
    more = assigned(addresses, service("b", type="LoadBalancer", ports=[{"port": 1}]))
    assert more["ports"] == [{"port": 1, "nodePort": 30002}]
    plain = assigned(addresses, service("c", ports=[{"port": 80}]))
    assert plain["ports"] == [{"port": 80}]


def is_rejected(addresses: ServiceAllocator, given: Any) -> list[str]:
    addresses.allocate(given)
    return [str(problem) for problem in addresses.validate(given)]


def test_address_of_another_service_is_rejected() -> None:
    addresses = ServiceAllocator()
    held = service("a", type="NodePort", clusterIP="10.96.0.9", ports=[{"nodePort": 30000}])
    addresses.claim(held)
    expected = service("b", type="NodePort", clusterIP="10.96.0.9", ports=[{"nodePort": 30000}])
    assert is_rejected(addresses, expected) == [
        'spec.clusterIPs: Invalid value: ["10.96.0.9"]: '
        "failed to allocate IP 10.96.0.9: provided IP is already allocated",
        "spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated",
    ]
    addresses.release(held)
    assert is_rejected(addresses, expected) == []


def test_address_outside_the_range_is_rejected() -> None:
    expected = service("b", type="NodePort", clusterIP="10.0.0.9", ports=[{"nodePort": 80}])
    assert is_rejected(ServiceAllocator(), expected) == [
        'spec.clusterIPs: Invalid value: ["10.0.0.9"]: failed to allocate IP 10.0.0.9: '
        "provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/16",
        "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. "
        "The range of valid ports is 30000-32767",
    ]


@given(st.lists(st.booleans(), max_size=60))
def test_no_address_is_allocated_twice(steps: list[bool]) -> None:
    addresses = ServiceAllocator(ServiceRanges(IPv4Network("10.0.0.0/26")))
    held: list[Any] = []
    for number, take in enumerate(steps):
        if take and len(held) < 60:
            held.append(service(f"s{number}"))
            addresses.allocate(held[-1])
        elif held:
            addresses.release(held.pop(0))
    allocated = [each["spec"]["clusterIP"] for each in held]
    assert len(set(allocated)) == len(allocated)
