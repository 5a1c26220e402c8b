"""From a Service and its EndpointSlices to routes and doors. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address

from msgspec.structs import replace

from kilonova.local.nodes.process.network.routes import Backend, Route, is_pod_address
from kilonova.local.nodes.process.services.objects import EndpointSlice, Service, ServicePort

API_SERVICE = ("default", "kubernetes")
_CLUSTER_NETWORK = IPv4Network("10.96.0.0/16")
_MIRROR_NETWORK = IPv4Network("127.96.0.0/16")
_PROTOCOLS = ("TCP", "UDP")


def routes_of(
    service: Service | None, slices: Iterable[EndpointSlice], api: Backend | None
) -> tuple[Route, ...]:
    """The routes that begin at a Service: to its ready pods on this machine.

    Pods of simulated nodes have addresses where nobody listens; they are left out. The API's own
    Service leads to `api`.
    """
    if service is None or not service.has_address:
        return ()
    slices = tuple(slices)
    sticky = service.spec.session_affinity == "ClientIP"
    is_api = (service.metadata.namespace, service.metadata.name) == API_SERVICE
    routes: list[Route] = []
    for port in service.spec.ports:
        if port.protocol not in _PROTOCOLS:
            continue
        backends = (api,) if is_api and api else _backends(port, slices)
        address = service.spec.cluster_ip
        routes.append(Route(address, port.port, port.protocol, backends, sticky))
    return tuple(routes)


def _backends(port: ServicePort, slices: Iterable[EndpointSlice]) -> tuple[Backend, ...]:
    found = {
        Backend(endpoint.addresses[0], number)
        for each in slices
        if each.address_type == "IPv4"
        for number in port_numbers(each, port)
        for endpoint in each.endpoints or ()
        if endpoint.ready and endpoint.addresses and is_pod_address(endpoint.addresses[0])
    }
    return tuple(sorted(found))


def port_numbers(slice_: EndpointSlice, port: ServicePort) -> list[int]:
    """The numbers that a Service's port has at the endpoints of a slice."""
    return [
        each.port
        for each in slice_.ports or ()
        if each.port and (each.name or "") == port.name and each.protocol == port.protocol
    ]


def nameserver_routes(nameservers: Iterable[str], dns: Backend) -> tuple[Route, ...]:
    """From the machine's nameservers to the cluster's."""
    return tuple(
        Route(address.partition("%")[0], 53, protocol, (dns,), virtual=False)
        for address in nameservers
        for protocol in _PROTOCOLS
    )


Place = tuple[str, int]
"""A host and a port."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where people on this machine reach a Service, and what is behind it."""

    host: str
    port: int
    route: Route

    @property
    def place(self) -> Place:
        return (self.host, self.port)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def doors_of(service: Service | None, routes: Iterable[Route]) -> tuple[Door, ...]:
    """The doors of a Service: a mirror of its ClusterIP, and its node ports.

    A Service without pods on this machine has none, so that thousands of simulated ones cost
    nothing; a load balancer has one in any case, since it was asked for. The API has its own.
    """
    if service is None or (service.metadata.namespace, service.metadata.name) == API_SERVICE:
        return ()
    by_port = {route.port: route for route in routes if route.protocol == "TCP"}
    doors: list[Door] = []
    for port in service.spec.ports:
        route = by_port.get(port.port)
        if port.protocol != "TCP" or route is None:
            continue
        if not route.backends and not is_balanced(service):
            continue
        if mirror := mirrored(service.spec.cluster_ip):
            doors.append(Door(mirror, port.port, route))
        if port.node_port:
            doors.append(Door("127.0.0.1", port.node_port, route))
    return tuple(doors)


def at_its_door(service: Service) -> Service:
    """A Service as it is reached without routes: at the mirror of its ClusterIP, the API itself."""
    spec = service.spec
    if (service.metadata.namespace, service.metadata.name) == API_SERVICE:
        ports = tuple(replace(port, port=int(port.target_port or port.port)) for port in spec.ports)
        return replace(service, spec=replace(spec, cluster_ip="127.0.0.1", ports=ports))
    mirror = mirrored(spec.cluster_ip)
    return replace(service, spec=replace(spec, cluster_ip=mirror)) if mirror else service


def is_balanced(service: Service) -> bool:
    """Whether this cluster is the load balancer of a Service; a class names another one."""
    return service.spec.type == "LoadBalancer" and service.spec.load_balancer_class is None


def mirrored(cluster_ip: str) -> str | None:
    """The loopback address that stands for a ClusterIP: 127.96.a.b for 10.96.a.b."""
    address = ip_address(cluster_ip)
    if address not in _CLUSTER_NETWORK:
        return None
    return str(_MIRROR_NETWORK[int(address) - int(_CLUSTER_NETWORK.network_address)])
