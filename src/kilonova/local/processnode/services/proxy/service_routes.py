"""Routes and listeners of a Service and its EndpointSlices. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from kilonova.api.service_addresses import HOST_LISTENER, POD_LISTENER, map_to_loopback
from kilonova.local.processnode.network.routes import Backend, ServiceRoute, is_pod_address
from kilonova.local.processnode.services.objects import EndpointSlice, Service, ServicePort

API_SERVICE = ("default", "kubernetes")
_PROTOCOLS = ("TCP", "UDP")


def build_routes(
    service: Service | None, slices: Iterable[EndpointSlice], api: Backend | None
) -> tuple[ServiceRoute, ...]:
    """The routes of a Service: to its ready pods on this machine.

    Pods of simulated nodes have addresses where nothing listens; they are left out. The
    `kubernetes` Service leads to `api`.
    """
    if service is None or not service.has_cluster_ip:
        return ()
    slices = tuple(slices)
    sticky = service.spec.session_affinity == "ClientIP"
    is_api = (service.metadata.namespace, service.metadata.name) == API_SERVICE
    routes: list[ServiceRoute] = []
    for port in service.spec.ports:
        if port.protocol not in _PROTOCOLS:
            continue
        backends = (api,) if is_api and api else _select_backends(port, slices)
        address = service.spec.cluster_ip
        routes.append(ServiceRoute(address, port.port, port.protocol, backends, sticky))
    return tuple(routes)


def _select_backends(port: ServicePort, slices: Iterable[EndpointSlice]) -> tuple[Backend, ...]:
    found = {
        Backend(endpoint.addresses[0], number)
        for each in slices
        if each.address_type == "IPv4"
        for number in find_target_ports(each, port)
        for endpoint in each.endpoints or ()
        if endpoint.is_ready and endpoint.addresses and is_pod_address(endpoint.addresses[0])
    }
    return tuple(sorted(found))


def find_target_ports(slice_: EndpointSlice, port: ServicePort) -> list[int]:
    """The port numbers of a Service port at the endpoints of a slice."""
    return [
        each.port
        for each in slice_.ports or ()
        if each.port and (each.name or "") == port.name and each.protocol == port.protocol
    ]


def build_nameserver_routes(nameservers: Iterable[str], dns: Backend) -> tuple[ServiceRoute, ...]:
    """Routes from the machine's nameservers to the cluster DNS."""
    return tuple(
        ServiceRoute(address.partition("%")[0], 53, protocol, (dns,), is_virtual=False)
        for address in nameservers
        for protocol in _PROTOCOLS
    )


HostPort = tuple[str, int]
"""A host and a port."""


@dataclass(frozen=True, slots=True)
class ServiceListener:
    """Where a Service is reached from this machine, and its route."""

    host: str
    port: int
    route: ServiceRoute

    @property
    def host_port(self) -> HostPort:
        return (self.host, self.port)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def plan_listeners(
    service: Service | None, routes: Iterable[ServiceRoute]
) -> tuple[ServiceListener, ...]:
    """The listeners of a Service: a mirror of its ClusterIP, and its node ports.

    A Service without pods on this machine has none, so that thousands of simulated ones cost
    nothing; a load balancer always has one. The `kubernetes` Service has none: the API listens
    itself. Of a Service whose pods listen at the mirror themselves, node ports alone are listened
    at.
    """
    if service is None or (service.metadata.namespace, service.metadata.name) == API_SERVICE:
        return ()
    by_port = {route.port: route for route in routes if route.protocol == "TCP"}
    pods_listen = has_pod_listener(service)
    listeners: list[ServiceListener] = []
    for port in service.spec.ports:
        route = by_port.get(port.port)
        if port.protocol != "TCP" or route is None:
            continue
        if not route.backends and not is_own_load_balancer(service):
            continue
        mirror = map_to_loopback(service.spec.cluster_ip)
        if mirror and not pods_listen:
            listeners.append(ServiceListener(mirror, port.port, route))
        if port.node_port:
            listeners.append(ServiceListener("127.0.0.1", port.node_port, route))
    return tuple(listeners)


def rewrite_to_loopback(service: Service) -> Service:
    """The Service as reached without routes: at the mirror of its ClusterIP, or the API itself."""
    spec = service.spec
    if (service.metadata.namespace, service.metadata.name) == API_SERVICE:
        ports = tuple(replace(port, port=int(port.target_port or port.port)) for port in spec.ports)
        return replace(service, spec=replace(spec, cluster_ip="127.0.0.1", ports=ports))
    mirror = map_to_loopback(spec.cluster_ip)
    return replace(service, spec=replace(spec, cluster_ip=mirror)) if mirror else service


def is_own_load_balancer(service: Service) -> bool:
    """Whether this cluster is the load balancer of a Service: one with a class belongs to
    another."""
    return service.spec.type == "LoadBalancer" and service.spec.load_balancer_class is None


def has_pod_listener(service: Service) -> bool:
    """Whether pods of a Service listen at the mirror of its ClusterIP themselves."""
    return service.metadata.annotations.get(HOST_LISTENER) == POD_LISTENER
