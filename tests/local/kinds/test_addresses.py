"""Cluster addresses and node ports: unique, stable, the same in every run."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.kinds.addresses import Addresses


def service(name: str, **spec: Any) -> Any:
    return {"metadata": {"namespace": "n", "name": name}, "spec": {"type": "ClusterIP", **spec}}


def assigned(addresses: Addresses, given: Any) -> Any:
    addresses.assign(given)
    assert addresses.problems(given) == []
    return given["spec"]


def test_a_service_gets_an_address_and_keeps_it() -> None:
    addresses = Addresses()
    first = assigned(addresses, service("a"))["clusterIP"]
    assert assigned(addresses, service("a"))["clusterIP"] == first
    assert assigned(addresses, service("b"))["clusterIP"] != first


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"type": "ExternalName"}])
def test_who_needs_no_address_gets_none(spec: Any) -> None:
    given = service("a", **spec)
    assert assigned(Addresses(), given).get("clusterIPs") is None


def test_ports_at_the_nodes_are_given_where_they_are_needed() -> None:
    addresses = Addresses(node_ports=range(30000, 30003))
    ports = [{"port": 80}, {"port": 81, "nodePort": 30001}]
    spec = assigned(addresses, service("a", type="NodePort", ports=ports))
    assert [port["nodePort"] for port in spec["ports"]] == [30000, 30001]
    more = assigned(addresses, service("b", type="LoadBalancer", ports=[{"port": 1}]))
    assert more["ports"] == [{"port": 1, "nodePort": 30002}]
    plain = assigned(addresses, service("c", ports=[{"port": 80}]))
    assert plain["ports"] == [{"port": 80}]


def refused(addresses: Addresses, given: Any) -> list[str]:
    addresses.assign(given)
    return [str(problem) for problem in addresses.problems(given)]


def test_what_somebody_else_has_is_refused() -> None:
    addresses = Addresses()
    held = service("a", type="NodePort", clusterIP="10.96.0.9", ports=[{"nodePort": 30000}])
    addresses.adopt(held)
    wanted = service("b", type="NodePort", clusterIP="10.96.0.9", ports=[{"nodePort": 30000}])
    assert refused(addresses, wanted) == [
        'spec.clusterIPs: Invalid value: ["10.96.0.9"]: '
        "failed to allocate IP 10.96.0.9: provided IP is already allocated",
        "spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated",
    ]
    addresses.release(held)
    assert refused(addresses, wanted) == []


def test_what_is_outside_the_ranges_is_refused() -> None:
    wanted = service("b", type="NodePort", clusterIP="10.0.0.9", ports=[{"nodePort": 80}])
    assert refused(Addresses(), wanted) == [
        'spec.clusterIPs: Invalid value: ["10.0.0.9"]: failed to allocate IP 10.0.0.9: '
        "provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/16",
        "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. "
        "The range of valid ports is 30000-32767",
    ]


@given(st.lists(st.booleans(), max_size=60))
def test_no_address_is_held_twice(steps: list[bool]) -> None:
    addresses = Addresses("10.0.0.0/26")
    held: list[Any] = []
    for number, take in enumerate(steps):
        if take and len(held) < 60:
            held.append(service(f"s{number}"))
            addresses.assign(held[-1])
        elif held:
            addresses.release(held.pop(0))
    taken = [each["spec"]["clusterIP"] for each in held]
    assert len(set(taken)) == len(taken)
