"""Cluster addresses and node ports of services: who has which.

One per server, used from its event loop only. What is taken is kept by owner, so that asking
again for the same service gives the same answer, and a service that was never stored, or is
gone without notice, costs no more than its reservation.
"""

from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Network, ip_address
from random import Random
from typing import TypeVar

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value
from kilonova.local.kinds.walk import inside, objects, part

_Item = TypeVar("_Item", str, int)

_LOW_BAND = 256
"""The first addresses of the network are left to those who ask for one by name."""


class Addresses:
    """The pools. Free addresses and ports are given in order, from where `begin` says."""

    def __init__(
        self, network: str = "10.96.0.0/16", node_ports: range = range(30000, 32768)
    ) -> None:
        self._network = IPv4Network(network)
        self._node_ports = node_ports
        self._address_owner: dict[str, str] = {}
        self._port_owner: dict[int, str] = {}
        self._next_address = min(_LOW_BAND, self._network.num_addresses // 2)
        self._next_port = 0
        self.is_alive: Callable[[str], bool] = lambda _: True
        """Whether an owner, `namespace/name`, is stored or about to be: others hold nothing."""

    def begin(self, random: Random) -> None:
        """Give addresses and ports from somewhere on: two clusters of a machine seldom clash."""
        self._next_address = random.randrange(self._next_address, self._network.num_addresses - 1)
        self._next_port = random.randrange(len(self._node_ports))

    def adopt(self, service: JsonObject) -> None:
        """Note what a stored service holds."""
        owner = _owner(service)
        for address in _addresses(service):
            self._address_owner[address] = owner
        for port in objects(service, "spec", "ports"):
            if port.get("nodePort"):
                self._port_owner[port["nodePort"]] = owner

    def release(self, service: JsonObject) -> None:
        """Forget what a service held that is gone."""
        owner = _owner(service)
        self._address_owner = {
            address: holder for address, holder in self._address_owner.items() if holder != owner
        }
        self._port_owner = {
            port: holder for port, holder in self._port_owner.items() if holder != owner
        }

    def assign(self, service: JsonObject) -> None:
        """Give the service the cluster address and node ports that it needs and lacks.

        What it asks for by name is reserved for it, unless somebody else has it.
        """
        spec, owner = inside(service, "spec"), _owner(service)
        if spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = self._held(owner) or self._free_address()
            spec["clusterIPs"] = [spec["clusterIP"]]
        for address in _addresses(service):
            if self._may_have(self._address_owner, address, owner):
                self._address_owner[address] = owner
        if needs_node_ports(spec):
            for port in objects(spec, "ports"):
                if not port.get("nodePort"):
                    port["nodePort"] = self._free_port()
                if self._may_have(self._port_owner, port["nodePort"], owner):
                    self._port_owner[port["nodePort"]] = owner

    def problems(self, service: JsonObject) -> list[Problem]:
        """What the service asks for and cannot have."""
        return [*self._address_problems(service), *self._port_problems(service)]

    def _address_problems(self, service: JsonObject) -> Iterator[Problem]:
        owner = _owner(service)
        for address in _addresses(service):
            if trouble := self._address_trouble(address, owner):
                detail = f"failed to allocate IP {address}: {trouble}"
                yield invalid_value("spec.clusterIPs", _addresses(service), detail)

    def _port_problems(self, service: JsonObject) -> Iterator[Problem]:
        owner = _owner(service)
        for index, port in enumerate(objects(service, "spec", "ports")):
            number = port.get("nodePort")
            if not number:
                continue
            path = f"spec.ports[{index}].nodePort"
            if number not in self._node_ports:
                first, last = self._node_ports[0], self._node_ports[-1]
                detail = (
                    "provided port is not in the valid range. "
                    f"The range of valid ports is {first}-{last}"
                )
                yield invalid_value(path, number, detail)
            elif not self._may_have(self._port_owner, number, owner):
                yield invalid_value(path, number, "provided port is already allocated")

    def _held(self, owner: str) -> str:
        return next((each for each, holder in self._address_owner.items() if holder == owner), "")

    def _free_address(self) -> str:
        size = self._network.num_addresses
        for _ in range(size):
            candidate = str(self._network[self._next_address])
            self._next_address = self._next_address + 1
            if self._next_address >= size - 1:
                self._next_address = 1
            if self._may_have(self._address_owner, candidate, ""):
                return candidate
        raise RuntimeError(f"no address left in {self._network}")

    def _free_port(self) -> int:
        for _ in self._node_ports:
            candidate = self._node_ports[self._next_port]
            self._next_port = (self._next_port + 1) % len(self._node_ports)
            if self._may_have(self._port_owner, candidate, ""):
                return candidate
        raise RuntimeError("no node port left")

    def _address_trouble(self, address: str, owner: str) -> str:
        if not _within(address, self._network):
            return (
                f"provided IP is not in the valid range. The range of valid IPs is {self._network}"
            )
        if not self._may_have(self._address_owner, address, owner):
            return "provided IP is already allocated"
        return ""

    def _may_have(self, owners: Mapping[_Item, str], item: _Item, owner: str) -> bool:
        holder = owners.get(item, owner)
        return holder == owner or not self.is_alive(holder)


def needs_node_ports(spec: JsonObject) -> bool:
    """Whether a service is reached at every node."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def _owner(service: JsonObject) -> str:
    metadata = service["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _addresses(service: JsonObject) -> list[str]:
    spec = part(service, "spec")
    if spec.get("clusterIP") in (None, "", "None"):
        return []
    return spec.get("clusterIPs") or [spec["clusterIP"]]


def _within(address: str, network: IPv4Network) -> bool:
    try:
        return ip_address(address) in network
    except ValueError:
        return False
