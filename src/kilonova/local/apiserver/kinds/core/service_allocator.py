"""Allocation of cluster IPs and node ports to services (ipallocator, portallocator).

One per server, used from its event loop only. Allocations are recorded by owner, so that allocating
again for the same service returns the same values, and one for a service that was never stored, or
is deleted unnoticed, is reclaimed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address
from random import Random
from typing import TypeVar

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_objects

_Item = TypeVar("_Item", str, int)

_STATIC_BAND = 256
"""The first addresses of the network are reserved for services that request a specific one."""
_DEFAULT_CLUSTER_IPS = IPv4Network("10.96.0.0/16")


@dataclass(frozen=True, slots=True)
class ServiceRanges:
    """The ranges of a cluster's services; those of clusters on one machine may be kept apart."""

    cluster_ips: IPv4Network = _DEFAULT_CLUSTER_IPS
    """--service-cluster-ip-range of kube-apiserver."""
    node_ports: range = range(30000, 32768)
    """--service-node-port-range."""

    @property
    def api_address(self) -> str:
        """The cluster IP of the API server's own service."""
        return str(self.cluster_ips[1])


DEFAULT_RANGES = ServiceRanges()


class ServiceAllocator:
    """The pools. Free addresses and ports are allocated in order, from a configurable start."""

    def __init__(self, ranges: ServiceRanges = DEFAULT_RANGES) -> None:
        self._network = ranges.cluster_ips
        self._node_ports = ranges.node_ports
        self._address_owner: dict[str, str] = {}
        self._port_owner: dict[int, str] = {}
        self._next_address = min(_STATIC_BAND, self._network.num_addresses // 2)
        self._next_port = 0
        self.is_stored: Callable[[str], bool] = lambda _: True
        """Whether an owner, `namespace/name`, is stored or about to be: others hold no allocation.
        """

    def randomize_start(self, random: Random) -> None:
        """Start allocating at a random address and port: clusters on one machine rarely clash."""
        self._next_address = random.randrange(self._next_address, self._network.num_addresses - 1)
        self._next_port = random.randrange(len(self._node_ports))

    def claim(self, service: JsonObject) -> None:
        """Record the allocations of a stored service."""
        owner = _owner_key(service)
        for address in _cluster_ips(service):
            self._address_owner[address] = owner
        for port in nested_objects(service, "spec", "ports"):
            if port.get("nodePort"):
                self._port_owner[port["nodePort"]] = owner

    def release(self, service: JsonObject) -> None:
        """Release the allocations of a deleted service."""
        owner = _owner_key(service)
        self._address_owner = {
            address: current for address, current in self._address_owner.items() if current != owner
        }
        self._port_owner = {
            port: current for port, current in self._port_owner.items() if current != owner
        }

    def allocate(self, service: JsonObject) -> None:
        """Allocate the cluster IP and node ports that the service needs and lacks.

        Addresses and ports that it requests are reserved for it, unless another service has them.
        """
        spec, owner = ensure_object(service, "spec"), _owner_key(service)
        if spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = self._address_of(owner) or self._next_free_address()
            spec["clusterIPs"] = [spec["clusterIP"]]
        for address in _cluster_ips(service):
            if self._is_available(self._address_owner, address, owner):
                self._address_owner[address] = owner
        if needs_node_ports(spec):
            for port in nested_objects(spec, "ports"):
                if not port.get("nodePort"):
                    port["nodePort"] = self._next_free_port()
                if self._is_available(self._port_owner, port["nodePort"], owner):
                    self._port_owner[port["nodePort"]] = owner

    def validate(self, service: JsonObject) -> list[FieldError]:
        """The requested addresses and ports that are not available."""
        return [*self._validate_cluster_ips(service), *self._validate_node_ports(service)]

    def _validate_cluster_ips(self, service: JsonObject) -> Iterator[FieldError]:
        owner = _owner_key(service)
        for address in _cluster_ips(service):
            if error := self._address_error(address, owner):
                detail = f"failed to allocate IP {address}: {error}"
                yield invalid_value("spec.clusterIPs", _cluster_ips(service), detail)

    def _validate_node_ports(self, service: JsonObject) -> Iterator[FieldError]:
        owner = _owner_key(service)
        for index, port in enumerate(nested_objects(service, "spec", "ports")):
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
            elif not self._is_available(self._port_owner, number, owner):
                yield invalid_value(path, number, "provided port is already allocated")

    def _address_of(self, owner: str) -> str:
        return next((each for each, current in self._address_owner.items() if current == owner), "")

    def _next_free_address(self) -> str:
        size = self._network.num_addresses
        for _ in range(size):
            candidate = str(self._network[self._next_address])
            self._next_address = self._next_address + 1
            if self._next_address >= size - 1:
                self._next_address = 1
            if self._is_available(self._address_owner, candidate, ""):
                return candidate
        raise RuntimeError(f"no free cluster IP in {self._network}")

    def _next_free_port(self) -> int:
        for _ in self._node_ports:
            candidate = self._node_ports[self._next_port]
            self._next_port = (self._next_port + 1) % len(self._node_ports)
            if self._is_available(self._port_owner, candidate, ""):
                return candidate
        raise RuntimeError("no free node port")

    def _address_error(self, address: str, owner: str) -> str:
        if not _is_within(address, self._network):
            return (
                f"provided IP is not in the valid range. The range of valid IPs is {self._network}"
            )
        if not self._is_available(self._address_owner, address, owner):
            return "provided IP is already allocated"
        return ""

    def _is_available(self, owners: Mapping[_Item, str], item: _Item, owner: str) -> bool:
        current = owners.get(item, owner)
        return current == owner or not self.is_stored(current)


def needs_node_ports(spec: JsonObject) -> bool:
    """Whether a service of this type has node ports."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def _owner_key(service: JsonObject) -> str:
    metadata = service["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _cluster_ips(service: JsonObject) -> list[str]:
    spec = nested_object(service, "spec")
    if spec.get("clusterIP") in (None, "", "None"):
        return []
    return spec.get("clusterIPs") or [spec["clusterIP"]]


def _is_within(address: str, network: IPv4Network) -> bool:
    try:
        return ip_address(address) in network
    except ValueError:
        return False
